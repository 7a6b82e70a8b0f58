"""I/O: run a command and kill its descendants when it takes too long (proc(5))."""

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
    """Run a command; return its exit status and its output (standard output and error).

    `environment`, `folder`: it runs in. After `timeout_s` it is killed with all its descendants: a
    process that a profiler launched would go on using the device. Raises OSError,
    subprocess.TimeoutExpired.
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
    tree = [root]
    try:
        for process in tree:
            _send(process, signal.SIGSTOP)
            tree += children_of(process)
    finally:
        # A process that stays stopped would be waited for endlessly.
        for process in tree:
            _send(process, signal.SIGKILL)


def children_of(parent: int) -> list[int]:
    """Return the child processes of a process that have not been reaped."""
    parents: dict[int, int] = {}
    for folder in _PROCESSES.iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            process = int(folder.name)
            # The name, in brackets, may contain anything; state and parent follow it.
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            parents[process] = int(fields[1])
    return [process for process, its_parent in parents.items() if its_parent == parent]


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
