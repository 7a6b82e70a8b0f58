"""Addresses for browsers: a ticket for the own gateway, and for no other."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from cli.cluster.state import write_state
from cli.inputs.pages import browser_address, gateway_of
from mlscope.logins import expiry_of
from tests.cli.cluster.test_state import a_state
from tests.cli.in_process import arguments

GATEWAY = "http://127.0.0.1:3"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend the data folder of a cluster, with the token of its pages."""
    for name in ("GATEWAY_URL", "GATEWAY_TOKEN_FILE"):
        monkeypatch.delenv(f"MLSCOPE_{name}", raising=False)
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))
    token_file = tmp_path / "gateway.token"
    token_file.write_text("secret\n")
    write_state(tmp_path, replace(a_state(), gateway_token_file=str(token_file)))
    return tmp_path


def ticket_in(address: str) -> str:
    (ticket,) = parse_qs(urlsplit(address).query).get("login", [""])
    return ticket


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("path", ["", "/", "/evaluations/e?run=r0"])
def test_an_address_of_the_own_gateway_logs_in(path: str) -> None:
    address = browser_address(GATEWAY + path, arguments("open"))
    assert expiry_of(ticket_in(address), "secret") > 0
    assert "secret" not in address


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:31/x", "http://e.org", f"{GATEWAY}.e.org", "", "/evaluations/e"]
)
def test_an_address_elsewhere_gets_no_ticket(address: str) -> None:
    assert browser_address(address, arguments("open")) == address


def test_a_folder_that_is_named_comes_before_the_settings(
    cluster: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path_factory.mktemp("empty")))
    assert gateway_of(arguments("open", "--data", str(cluster)))[0] == GATEWAY
    assert gateway_of(arguments("open")) == ("", None)


def test_the_token_of_the_settings_comes_before_the_cluster_s(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cluster / "own.token"
    own.write_text("mine")
    monkeypatch.setenv("MLSCOPE_GATEWAY_TOKEN_FILE", str(own))
    address = browser_address(GATEWAY, arguments("open"))
    assert expiry_of(ticket_in(address), "mine") > 0


def test_who_cannot_read_the_token_gets_the_address_as_it_is(cluster: Path) -> None:
    (cluster / "gateway.token").unlink()
    assert browser_address(GATEWAY, arguments("open")) == GATEWAY


def test_without_a_cluster_here_the_settings_name_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").write_text("secret")
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("MLSCOPE_GATEWAY_URL", "https://pages.e.org/")
    monkeypatch.setenv("MLSCOPE_GATEWAY_TOKEN_FILE", str(tmp_path / "t"))
    address = browser_address("https://pages.e.org/evaluations/e", arguments("open"))
    assert expiry_of(ticket_in(address), "secret") > 0
