"""I/O: run a command whose descendants end with it, in time or not (proc(5))."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROCESSES = Path("/proc")


def run_tree(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, timeout_s: float
) -> tuple[int, str]:
    """Run a command in a folder; return its exit status and all that it printed.

    One that takes longer is killed with everything that it started: what a profiler launches
    would go on with the device. Raises OSError, subprocess.TimeoutExpired.
    """
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException:
            kill_tree(process.pid)
            raise
    return process.returncode, output


def kill_tree(root: int) -> None:
    """Kill a process and its descendants; each is stopped first, so that it starts no other."""
    below = [root]
    try:
        for process in below:
            _send(process, signal.SIGSTOP)
            below += children_of(process)
    finally:
        # Who waits for one that stays stopped waits for ever.
        for process in below:
            _send(process, signal.SIGKILL)


def children_of(parent: int) -> list[int]:
    """Return the processes that a process started and that have not been reaped."""
    children = []
    for folder in _PROCESSES.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name, in brackets, may hold anything; state and parent follow it.
                fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    children.append(int(folder.name))
    return children


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
