"""`mlscope open`: the address of a page, on stdout."""

import re
from pathlib import Path

import pytest

from cli import exits
from cli.commands.open import open_page, page_address
from cli.failures import Misused
from tests.cli.conftest import CommandLine
from tests.cli.in_process import arguments
from tests.stand_ins import StandIns
from tests.stories import whole_story

E1 = "00000000000000e1"


def test_a_page_of_a_trace_may_name_its_run() -> None:
    assert page_address("http://g/evaluations/e") == "http://g/evaluations/e"
    assert page_address("http://g/e", is_trace=True) == "http://g/e/trace"
    assert page_address("http://g/e", is_trace=True, run="r 1") == "http://g/e/trace?run=r+1"


async def test_without_an_address_there_is_nothing_to_open(
    mlscope: CommandLine, standing: StandIns
) -> None:
    await standing.tell(*whole_story(E1))
    ended = await mlscope("open", E1, "--print")
    assert (ended.code, ended.out) == (exits.USAGE, "")
    assert "gateway" in ended.err
    assert (await mlscope("open", "nosuch", "--print")).code != exits.OK
    assert f"no gateway is known that serves the page of {E1}: start the cluster" in ended.err


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that a browser is given; of a folder without a cluster."""
    addresses: list[str] = []

    def open_in_browser(address: str) -> bool:
        addresses.append(address)
        return "nobrowser" not in address

    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))
    monkeypatch.delenv("MLSCOPE_GATEWAY_URL", raising=False)
    monkeypatch.delenv("MLSCOPE_GATEWAY_TOKEN_FILE", raising=False)
    monkeypatch.setattr("webbrowser.open", open_in_browser)
    return addresses


async def test_the_pages_are_opened_and_their_address_is_printed(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLSCOPE_GATEWAY_URL", "http://g.e.org")
    assert await open_page(arguments("open")) == exits.OK
    advice = "if the browser shows no page, open the address in it\n"
    assert capsys.readouterr() == ("http://g.e.org\n", advice)
    assert opened == ["http://g.e.org"]
    assert await open_page(arguments("open", "--print")) == exits.OK
    assert len(opened) == 1


def leads_to(opened: str) -> str:
    """Return the address in the file that a browser is given, which is this user's alone."""
    page = Path(opened.removeprefix("file://"))
    assert page.stat().st_mode & 0o777 == 0o600
    (address,) = re.findall(r'url=([^"]+)"', page.read_text("utf-8"))
    return str(address)


async def test_a_browser_gets_a_ticket_of_its_own_and_not_by_its_arguments(
    opened: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everybody on a machine sees the arguments of its programs."""
    (tmp_path / "token").write_text("secret")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("MLSCOPE_GATEWAY_URL", "http://g.e.org")
    monkeypatch.setenv("MLSCOPE_GATEWAY_TOKEN_FILE", str(tmp_path / "token"))
    await open_page(arguments("open"))
    printed = capsys.readouterr().out.strip()
    assert "login=" in printed
    assert "login" not in opened[0]
    address = leads_to(opened[0])
    assert address.startswith("http://g.e.org/")
    assert "login=" in address
    assert address != printed


async def test_a_machine_without_a_browser_says_so(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLSCOPE_GATEWAY_URL", "http://nobrowser")
    assert await open_page(arguments("open")) == exits.OK
    said = capsys.readouterr().err
    assert said == "no browser on this machine: open the address in another one\n"
    assert opened == ["http://nobrowser"]


async def test_without_a_gateway_the_next_step_is_said(opened: list[str]) -> None:
    with pytest.raises(Misused, match=r"serves the pages: start the cluster .*_GATEWAY_URL"):
        await open_page(arguments("open"))
    assert opened == []
