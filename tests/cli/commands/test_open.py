"""`mlscope open`: the address of a page, on stdout."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from cli import exits
from cli.cluster.ports import answers as answers_at
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
    assert capsys.readouterr() == ("http://g.e.org\n", "")
    assert opened == ["http://g.e.org"]
    assert await open_page(arguments("open", "--print")) == exits.OK
    assert len(opened) == 1


@pytest.fixture
def visits(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Callable[[str], object]]:
    """Return what a browser does with its address; the gateway's token is known."""
    steps: list[Callable[[str], object]] = []

    def visit(address: str) -> bool:
        opened.append(address)
        for step in steps:
            step(address)
        return True

    (tmp_path / "token").write_text("secret")
    monkeypatch.setenv("MLSCOPE_GATEWAY_URL", "http://g.e.org")
    monkeypatch.setenv("MLSCOPE_GATEWAY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr("webbrowser.open", visit)
    return steps


async def test_a_browser_gets_a_ticket_of_its_own_and_not_by_its_arguments(
    visits: list[Callable[[str], object]], opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody on a machine sees the arguments of its programs."""
    answers: list[httpx.Response] = []
    visits.append(lambda address: answers.append(httpx.get(address)))
    await open_page(arguments("open"))
    printed, said = capsys.readouterr()
    assert "login=" in printed
    assert said == ""
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}", opened[0])
    (answer,) = answers
    address = answer.headers["Location"]
    assert answer.status_code == 303
    assert address.startswith("http://g.e.org/")
    assert "login=" in address
    assert address != printed.strip()
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert not answers_at(int(opened[0].split(":")[2].partition("/")[0]))


CONNECTED_IN_ADVANCE = """
import asyncio, socket
from urllib.parse import urlsplit
from cli.one_visit import OneVisit

async def main():
    async with OneVisit("http://g.e.org") as visit:
        place = urlsplit(visit.url)
        silent = socket.create_connection((place.hostname, place.port))
        await asyncio.sleep(0.2)
    return silent

asyncio.run(main()).close()
"""


def test_a_browser_s_other_connections_end_without_a_word() -> None:
    """A browser opens some in advance, and says nothing on them."""
    command = [sys.executable, "-c", CONNECTED_IN_ADVANCE]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


ASKING = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
host, _, path = sys.argv[1].removeprefix("http://").partition("/")
place, _, port = host.partition(":")
with socket.create_connection((place, int(port))) as asking:
    asking.sendall(f"GET /{path} HTTP/1.1\\r\\n\\r\\n".encode())
    print(asking.recv(4096).decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run another user's program")
async def test_another_user_s_browser_is_not_let_in_and_uses_nothing_up(
    visits: list[Callable[[str], object]],
) -> None:
    answers: list[str] = []

    def ask_as_another(address: str) -> None:
        command = [sys.executable, "-I", "-c", ASKING, address]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append(done.stdout)

    def ask(address: str) -> None:
        answers.append(httpx.get(address).headers["Location"])

    visits += [ask_as_another, ask]
    await open_page(arguments("open"))
    assert answers[0].startswith("HTTP/1.1 403 ")
    assert "login" not in answers[0]
    assert "login=" in answers[1]


async def test_who_guesses_the_path_uses_nothing_up(
    visits: list[Callable[[str], object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A page of another site in the same browser may ask, and sees no path."""
    codes: list[int] = []

    def guess(address: str) -> None:
        place = address.rpartition("/")[0]
        urls = (f"{place}/favicon.ico", f"{place}/", address)
        codes.extend(httpx.get(url).status_code for url in urls)

    visits.append(guess)
    await open_page(arguments("open"))
    assert codes == [404, 404, 303]
    assert capsys.readouterr().err == ""


async def test_a_browser_that_never_asks_is_not_waited_for(
    visits: list[Callable[[str], object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cli.commands.open._OPENED_S", 0.2)
    assert await open_page(arguments("open")) == exits.OK
    said = capsys.readouterr().err
    assert said == "no browser asked for the page within 0.2 s: open the address in one\n"


async def test_where_the_kernel_does_not_say_who_asks_no_ticket_is_given(
    visits: list[Callable[[str], object]],
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cli.commands.open.are_known", lambda: False)
    await open_page(arguments("open"))
    assert opened == ["http://g.e.org"]
    assert "does not say whose browser asks" in capsys.readouterr().err


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
