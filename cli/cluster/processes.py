"""Processes of this machine: child processes that cannot outlive us, servers, identities."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from cli.cluster.errors import NotReady

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Identity:
    """What distinguishes a process from a later one with the same id.

    `pid`: the process id, which the kernel reuses; `started`: the start time as the operating
    system prints it.
    """

    pid: int
    started: str


def _start_time(pid: int) -> str | None:
    """Return when `pid` started, None when it does not run (a zombie does not)."""
    if Path("/proc/self/stat").exists():
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2]
        except OSError:
            return None
        state, *fields = after_name.split()
        return None if state in "ZX" else fields[18]
    ps = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return ps.stdout.strip() or None


def identify(pid: int) -> Identity:
    """Return the identity of a process that runs now, or of one that has just ended."""
    return Identity(pid, _start_time(pid) or "ended")


def is_alive(identity: Identity) -> bool:
    """Tell whether this very process still runs."""
    return _start_time(identity.pid) == identity.started


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, its complete environment, its log file and how it is stopped.

    `stop_signal` asks it to end; the kernel sends `orphan_signal` when our process dies first
    (Linux only). `user` is the uid and gid to become, for a parent that is root. `umask` has the
    rights that nobody gets to the files it makes; -1: as for ours. `descriptors` are those of our
    open files that it gets; no other child does.
    """

    name: str
    argv: Sequence[str]
    log: Path
    environ: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    user: tuple[int, int] | None = None
    cwd: Path | None = field(default=None)
    umask: int = -1
    descriptors: Sequence[int] = ()


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return the function that a child runs before its program: ask for a signal when we die."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def request_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return request_signal


class Child:
    """A running (or ended) child process, in a process group of its own."""

    def __init__(self, command: Command) -> None:
        """Start the command; its output is appended to its log, which nobody else may read."""
        self.command = command
        uid, gid = command.user or (None, None)
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            command.log.chmod(0o600)
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
                umask=command.umask,
                process_group=0,
                pass_fds=command.descriptors,
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
        """Ask the child to end, kill it after `timeout_s`, then kill its process group."""
        self.send(self.command.stop_signal)
        self.end(timeout_s)

    def end(self, timeout_s: float) -> None:
        """Wait until the child ends, kill it after `timeout_s`, then kill its process group."""
        if not self.wait(timeout_s):
            self.send(signal.SIGKILL)
            self._popen.wait()
        self.sweep()

    def sweep(self) -> None:
        """Kill the processes that an ended child left in its process group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def last_lines(log: Path, count: int = 5) -> str:
    """Return the last `count` lines of a log file, or an empty text when there is no file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-count:])


def wait_until(ready: Callable[[], bool], child: Child, timeout_s: float) -> None:
    """Poll `ready` until it returns true.

    Raises `NotReady` when `child` ends first, or after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not ready():
        if child.exit_code() is not None or time.monotonic() > deadline:
            log = child.command.log
            raise NotReady(child.command.name, log, last_lines(log))
        time.sleep(_POLL_S)


class Server(ABC):
    """A server of one data folder; `with` starts and stops it. Its data stay on disk."""

    #: how long it may take to answer after its start, and to shut down
    ready_within_s: ClassVar[float] = 30.0
    stop_within_s: ClassVar[float] = 10.0
    _child: Child | None = None

    @abstractmethod
    def command(self) -> Command:
        """Create what the server needs on disk and return the command that runs it."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether the server answers."""

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._child is not None, "not started"
        return self._child.pid

    def start(self, timeout_s: float | None = None) -> Self:
        """Start the server and wait until it answers.

        `timeout_s` replaces `ready_within_s`. Raises `NotReady`.
        """
        self._child = Child(self.command())
        wait_until(self.is_ready, self._child, timeout_s or self.ready_within_s)
        return self

    def stop(self) -> None:
        """Shut the server down."""
        if self._child is not None:
            self._child.stop(timeout_s=self.stop_within_s)
            self._child = None

    def kill(self) -> None:
        """Kill the server's main process (SIGKILL); its own children end by themselves."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            self._child.wait(10.0)
            self._child = None

    def __enter__(self) -> Self:
        """Start the server and return it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shut the server down."""
        self.stop()
