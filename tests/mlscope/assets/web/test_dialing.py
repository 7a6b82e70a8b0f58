"""Hosts that may be fetched from: no request leads an agent to servers that only it reaches."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlscope.assets.addresses import HttpSource, HubSource, parse
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import DownloadFailed, HostNotAllowed
from mlscope.assets.fetching import Assets
from mlscope.assets.options import AllowedHosts, FetchOptions, RetryPolicy
from tests.mlscope.assets.web_server import Site, serving

ANYTHING = Checksum("sha256", "0" * 64)
_QUICK = RetryPolicy(2, 3, 0.0, 0.0, 0.3)


def fetching(cache: Cache, root: Path, *names: str, retries: RetryPolicy = _QUICK) -> Assets:
    """Return assets that are fetched from the hosts `names` alone."""
    return Assets(cache, root, options=FetchOptions(AllowedHosts(names), retries=retries))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1",
        "169.254.169.254", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "ff02::1",
        "fec0::1", "64:ff9b:1::a00:1",
    ],
)  # fmt: skip
def test_no_address_but_the_internets_is_public(address: str) -> None:
    with pytest.raises(HostNotAllowed):
        AllowedHosts().check("models.example", ["93.184.215.14", address])


def test_hosts_and_networks_are_allowed_by_name() -> None:
    AllowedHosts().check("models.example", ["93.184.215.14", "2606:2800:21f:cb07::1"])
    AllowedHosts(("10.0.0.0/8",)).check("models.example", ["10.1.2.3"])
    AllowedHosts(("models.example",)).check("Models.Example.", ["127.0.0.1"])
    AllowedHosts(("any",)).check("models.example", ["127.0.0.1"])
    for names in (("models.example",), ("10.0.0.0/8", "models.example")):
        with pytest.raises(HostNotAllowed):
            AllowedHosts(names).check("other.example", ["93.184.215.14"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::1]", "0"])
def test_loopback_is_not_asked_under_any_spelling(
    cache: Cache, root: Path, site: Site, host: str
) -> None:
    site.put("/m", b"secret")
    port = site.url.rpartition(":")[2]
    with pytest.raises((HostNotAllowed, DownloadFailed)):
        fetching(cache, root, "public").fetch(HttpSource(f"http://{host}:{port}/m"), ANYTHING)
    assert site.asked == []


def test_a_redirect_leads_to_no_other_host(cache: Cache, root: Path, site: Site) -> None:
    with serving() as inner:
        port = inner.url.rpartition(":")[2]
        site.redirects["/m"] = f"http://127.0.0.2:{port}/m"
        with pytest.raises(HostNotAllowed, match=r"127\.0\.0\.2"):
            fetching(cache, root, "127.0.0.1").fetch(parse(f"{site.url}/m"), ANYTHING)
    assert len(site.asked) == 1
    assert inner.asked == []


def test_the_checked_address_is_the_one_connected_to(
    cache: Cache, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to loopback the second time, when it is too late."""
    port = int(site.url.rpartition(":")[2])
    answers = [("127.0.0.1", port), ("127.0.0.2", port)]

    def resolved(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", answers.pop(0))]

    site.put("/m", b"weights")
    monkeypatch.setattr("mlscope.assets.web.dialing.socket.getaddrinfo", resolved)
    with pytest.raises(Exception, match="sha256"):
        fetching(cache, root, "127.0.0.1/32").fetch(parse("http://rebinding.example/m"), ANYTHING)
    assert answers == [("127.0.0.2", port)]
    assert len(site.asked) == 1


def test_a_proxy_does_not_lead_around_the_list(
    cache: Cache, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", site.url)
    with pytest.raises(HostNotAllowed):
        fetching(cache, root, "public").fetch(parse("http://127.0.0.9/m"), ANYTHING)
    assert site.asked == []


def test_the_hub_of_the_owner_is_allowed(cache: Cache, root: Path, site: Site) -> None:
    site.put("/o/r/resolve/main/m", b"weights")
    options = FetchOptions(hub_url=site.url, retries=_QUICK)
    with Assets(cache, root, options=options).fetch(HubSource("o/r", "main", "m")) as pinned:
        assert pinned.path.read_bytes() == b"weights"
    with pytest.raises(HostNotAllowed):
        Assets(cache, root, options=options).fetch(parse(f"{site.url}/o"), ANYTHING)


@pytest.fixture(params=["head", "body"])
def dripping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a server whose head, or body, comes a byte at a time; yield its URL."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    is_over = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" if request.param == "body" else b""

    def drip(client: socket.socket) -> None:
        with client:
            try:
                client.sendall(head)
                while not is_over.wait(0.05):
                    client.sendall(b"x")
            except OSError:
                pass

    def serve() -> None:
        while not is_over.is_set():
            client, _ = listener.accept()
            threading.Thread(target=drip, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{address[1]}/m"
        is_over.set()
        socket.create_connection(address).close()
        thread.join()


@pytest.mark.parametrize(
    ("retries", "reason"),
    [
        (_QUICK, "less than 1024 bytes a second|no complete answer within 0.3 s"),
        (RetryPolicy(9, 9, 0.0, 0.0, 5.0, 1024, 0.4), "not complete after 0.4 s"),
    ],
)
def test_a_server_that_sends_a_byte_at_a_time_is_given_up(
    cache: Cache, root: Path, dripping: str, retries: RetryPolicy, reason: str
) -> None:
    started_s = time.monotonic()
    with pytest.raises(DownloadFailed, match=reason):
        fetching(cache, root, "127.0.0.1", retries=retries).fetch(parse(dripping), ANYTHING)
    assert time.monotonic() - started_s < 20  # it never ends by itself


@pytest.mark.parametrize(
    ("retries", "reason"),
    [
        (RetryPolicy(1, 1, 0.0, 0.0, 0.3, 1024, 5.0), "no complete answer within 0.3 s"),
        (RetryPolicy(9, 9, 0.0, 0.0, 1.0, 1, 0.4), "not complete after 0.4 s"),
    ],
)
def test_no_address_is_dialed_after_the_end(
    cache: Cache,
    root: Path,
    dripping: str,
    monkeypatch: pytest.MonkeyPatch,
    retries: RetryPolicy,
    reason: str,
) -> None:
    """The first address takes all the time there is, so that the second is too late."""
    port = int(dripping.rpartition(":")[2].partition("/")[0])
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as deaf,
        socket.create_connection(deaf.getsockname()),
    ):
        places = [deaf.getsockname(), ("127.0.0.1", port)]
        resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(
            "mlscope.assets.web.dialing.socket.getaddrinfo", lambda *_, **__: list(resolved)
        )
        with pytest.raises(DownloadFailed, match=reason):
            fetching(cache, root, "127.0.0.1", retries=retries).fetch(
                parse(f"http://two.example:{port}/m"), ANYTHING
            )


def test_a_slow_download_ends_when_it_is_cancelled(cache: Cache, root: Path, dripping: str) -> None:
    """What `progress` raises ends it at the next byte, not at the next quarter of a MiB."""
    taken: list[int] = []

    class Cancelled(Exception):
        pass

    def progress(done_bytes: int, _: int | None) -> None:
        taken.append(done_bytes)
        if done_bytes:
            raise Cancelled

    patient = RetryPolicy(1, 1, 0.0, 0.0, 1.0)
    with pytest.raises((Cancelled, DownloadFailed)):
        fetching(cache, root, "127.0.0.1", retries=patient).fetch(
            parse(dripping), ANYTHING, progress=progress
        )
    assert taken in ([], [0, 1])
