"""A command that takes too long ends with all that it started, and what it said is told else."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from services.agent.collectors.ncu import process_tree
from services.agent.collectors.ncu.process_tree import children_of, run_tree

DEEP = """
import pathlib, os, subprocess, sys
folder, depth = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if depth:
    child = subprocess.Popen([sys.executable, __file__, folder, str(depth - 1)])
(folder / f"new-{depth}").write_text(str(os.getpid()))
(folder / f"new-{depth}").rename(folder / f"process-{depth}")
child.wait() if depth else sys.stdin.read() or __import__("time").sleep(600)
"""


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return told.rpartition(")")[2].split()[0] not in "ZX"


def until(told: Any) -> None:
    """Wait for something to be so."""
    ends = time.monotonic() + 60
    while not told():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_what_was_started_ends_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "deep (1) 2.py"
    program.write_text(DEEP)
    told = [tmp_path / f"process-{depth}" for depth in range(3)]

    def all_there(*_: object, timeout: float) -> None:
        until(lambda: all(path.exists() for path in told))
        raise subprocess.TimeoutExpired("deep", timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", all_there)
    with pytest.raises(subprocess.TimeoutExpired):
        run_tree([sys.executable, str(program), str(tmp_path), "2"], {}, tmp_path, 1)
    started = [int(path.read_text()) for path in told]
    assert len({*started}) == 3
    until(lambda: not any(is_running(process) for process in started))


def test_one_that_was_stopped_is_killed_whatever_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(_: int) -> list[int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(process_tree, "children_of", unread)
    with pytest.raises(OSError, match="Too many open files"):
        run_tree([sys.executable, "-c", "import time; time.sleep(600)"], {}, tmp_path, 0.01)


def test_what_it_printed_and_how_it_ended_is_told(tmp_path: Path) -> None:
    program = "import sys, pathlib; print(pathlib.Path.cwd()); sys.exit('no')"
    status, printed = run_tree([sys.executable, "-c", program], {}, tmp_path, 60)
    assert status == 1
    assert sorted(printed.split()) == sorted([str(tmp_path), "no"])


def test_children_are_told_from_others() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert children_of(child.pid) == []
        parent = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert child.pid in children_of(parent)
        child.communicate(b"\n")
