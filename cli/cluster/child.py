"""One child process: started so that it cannot outlive its parent, and ended by its own pid."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.cluster.errors import NotReady

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, its whole environment, where its output goes and how it is ended.

    `stop_signal` asks it to end; `orphan_signal` is what the kernel sends when our process dies
    first (Linux only). `user` is the uid and gid to become, for a parent that is root.
    """

    name: str
    argv: Sequence[str]
    log: Path
    environ: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    user: tuple[int, int] | None = None
    cwd: Path | None = field(default=None)


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return what a new child does before its program: ask to be signalled when we die."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


class Child:
    """A running (or ended) child process, in a process group of its own."""

    def __init__(self, command: Command) -> None:
        """Start the command; what it prints is appended to its log."""
        self.command = command
        uid, gid = command.user or (None, None)
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            self._popen = subprocess.Popen(
                list(command.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(command.environ),
                cwd=command.cwd,
                user=uid,
                group=gid,
                extra_groups=None if uid is None else [],
                process_group=0,
                preexec_fn=_die_with_parent(command.orphan_signal),
            )

    @property
    def pid(self) -> int:
        """The child's process id, and the id of its group."""
        return self._popen.pid

    def exit_code(self) -> int | None:
        """None while it runs; else its exit code, negative for the signal that ended it."""
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child, unless it has ended."""
        self._popen.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Whether the child has ended within `timeout_s`."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the child to end, insist after `timeout_s`, and leave none of its group behind."""
        self.send(self.command.stop_signal)
        self.end(timeout_s)

    def end(self, timeout_s: float) -> None:
        """Wait for a child that was asked to end; insist after `timeout_s`, sweep its group."""
        if not self.wait(timeout_s):
            self.send(signal.SIGKILL)
            self._popen.wait()
        self.sweep()

    def sweep(self) -> None:
        """Kill what an ended child left in its process group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def last_lines(log: Path, count: int = 5) -> str:
    """Return the last lines of a log file, or nothing where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-count:])


def wait_until(ready: Callable[[], bool], child: Child, timeout_s: float) -> None:
    """Poll `ready` until it holds; `NotReady` when `child` ends first or time runs out."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if child.exit_code() is not None or time.monotonic() > deadline:
            log = child.command.log
            raise NotReady(child.command.name, log, last_lines(log))
        time.sleep(_POLL_S)
