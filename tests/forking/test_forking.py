"""Commands in forked processes: as in an interpreter of their own, and apart from each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking.commands import forks, run_mlscope
from tests.forking.server import ROOT


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "MLSCOPE_DATA": "nowhere", **more}


@pytest.mark.parametrize("arguments", [["ls", "models"], ["ls", "--bad"], []])
def test_a_fork_ends_as_an_interpreter_of_its_own_does(
    tmp_path: Path, arguments: list[str]
) -> None:
    forked = run_mlscope(arguments, environment(), cwd=tmp_path)
    own = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert forked.returncode == own.returncode
    assert (forked.stdout, forked.stderr) == (own.stdout, own.stderr)


def test_a_fork_has_the_environment_and_folder_of_its_request_alone(tmp_path: Path) -> None:
    named = run_mlscope(["ls", "models"], environment(MLSCOPE_DATA="named"), cwd=tmp_path)
    assert b"no cluster in named" in named.stderr
    bare = {name: value for name, value in os.environ.items() if name != "MLSCOPE_DATA"}
    assert b"no cluster in .mlscope" in run_mlscope(["ls", "models"], bare, cwd=tmp_path).stderr
    (tmp_path / "mine.yml").write_text("name: mine")
    assert run_mlscope(["manifest", "check", "mine.yml"], bare, cwd=tmp_path).returncode == 2
    assert b"mine.yml" in run_mlscope(["manifest", "check", "mine.yml"], bare, cwd=tmp_path).stderr


def test_a_fork_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forks().run(b'{"arguments": ["ls"], "environ": {}, "cwd": "/"}', timeout_s=0.0)


def printed_by(script: str, folder: Path) -> tuple[str, str]:
    """Run a script in a folder; return what it wrote to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


FORKING = """
import subprocess
from pathlib import Path
from tests.forking.in_place import COMMAND, fork_in_place

fork_in_place()
folder = Path("folder")
folder.mkdir()
(folder / "mine.yml").write_text("name: mine")
with Path("log").open("ab") as log:
    options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
    options |= {"env": {"MLSCOPE_DATA": "named"}, "cwd": folder}
    for arguments in (["manifest", "check", "mine.yml"], ["ls", "models"]):
        child = subprocess.Popen([*COMMAND, *arguments], **options)
        print(type(child).__name__, child.wait(60))
"""


def test_a_child_of_a_forking_process_has_its_own_streams_folder_and_environment(
    tmp_path: Path,
) -> None:
    assert printed_by(FORKING, tmp_path) == ("ForkedChild 2\nForkedChild 1\n", "")
    log = (tmp_path / "log").read_text()
    assert "mine.yml:1: version: found nothing" in log
    assert "no cluster in named" in log


WORKING = """
import asyncio, os, socket, subprocess, sys, types
from pathlib import Path
from tests.forking.in_place import WORKER, fork_in_place

def work(arguments):
    socket.socket(fileno=int(arguments[0])).send(f"{os.getsid(0) == os.getpid()}".encode())
    print(sorted(os.environ), file=sys.stderr)
    sys.exit(3)

async def started():
    ours, theirs, _ = *socket.socketpair(), open("other")
    with theirs, Path("errors").open("wb") as errors:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}
        options |= {"env": {"A": "b"}, "pass_fds": [theirs.fileno()], "start_new_session": True}
        child = await asyncio.create_subprocess_exec(*WORKER, str(theirs.fileno()), **options)
    print(type(child).__name__, await child.wait(), child.returncode, ours.recv(9), ours.recv(9))

fork_in_place()
sys.modules[WORKER[-1]] = types.SimpleNamespace(main=work)
Path("other").touch()
asyncio.run(started())
"""


def test_a_worker_of_a_forking_process_has_its_own_session_streams_and_files(
    tmp_path: Path,
) -> None:
    # Once it has ended, nobody holds the other end of its channel.
    assert printed_by(WORKING, tmp_path) == ("ForkedWorker 3 3 b'True' b''\n", "")
    assert (tmp_path / "errors").read_text() == "['A']\n"


ENDING = """
import warnings
from tests.forking.commands import forks

warnings.simplefilter("error")
print(forks()._process.pid)
"""


def test_a_server_has_ended_before_the_process_that_asks_it_ends(tmp_path: Path) -> None:
    pid, warned = printed_by(ENDING, tmp_path)
    assert (warned, Path("/proc", pid.strip()).exists()) == ("", False)
