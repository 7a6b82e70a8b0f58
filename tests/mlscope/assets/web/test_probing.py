"""Whether a web server answers: by what it says, and in bounded time."""

import socket
from collections.abc import Iterator

import pytest

from mlscope.assets.web.probing import web_fault
from tests.mlscope.assets.web_server import Site


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def silent() -> Iterator[str]:
    """Lend the URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("status", [200, 401, 403, 404, 429])
def test_what_is_about_one_file_or_caller_is_an_answer(site: Site, status: int) -> None:
    site.statuses = [status]
    assert web_fault(site.url, 5.0) == ""


@pytest.mark.parametrize("status", [407, 500, 502, 503, 504])
def test_a_server_that_serves_nobody_is_told(site: Site, status: int) -> None:
    site.statuses = [status]
    assert web_fault(site.url, 5.0) == f"{site.url} answers {status}"


def test_a_redirect_is_an_answer_and_is_not_followed(site: Site) -> None:
    site.redirects["/"] = f"{site.url}/elsewhere"
    assert web_fault(f"{site.url}/", 5.0) == ""
    assert [path for path, _ in site.asked] == ["/"]


def test_a_refused_connection_is_told() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert web_fault(url, 5.0).startswith(f"{url}: ")
        assert "refused" in web_fault(url, 5.0)


def test_a_server_that_hangs_is_given_up(silent: str) -> None:
    assert "timed out" in web_fault(silent, 0.2) or "within 0.2 s" in web_fault(silent, 0.2)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a..b/", "label empty"),
        (f"http://{'a' * 70}/", "too long"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://a:port/", "nonnumeric port: 'port'"),
        ("a.b", "unknown url type: 'a.b'"),
    ],
    ids=["empty label", "long label", "bracket", "port", "no scheme"],
)
def test_what_is_no_url_is_a_fault(url: str, reason: str) -> None:
    fault = web_fault(url, 5.0)
    assert fault.startswith(f"{url}: ")
    assert reason in fault
