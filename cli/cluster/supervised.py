"""One process that is kept running: started, watched, restarted when it ends or is silent.

Also when to restart it, and the bound of its log file.
"""

import logging
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cli.cluster.health import HealthWatch
from cli.cluster.processes import Child, Command, Identity, identify
from cli.cluster.state import ProcessState

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
STABLE_S = 10.0
"""A process that ran this long is restarted without delay, however often it ended before."""

MAX_LOG_BYTES = 16 << 20
_WATCH_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a process was restarted, and how often in a row it ended early."""

    total: int = 0
    in_a_row: int = 0


def after_end(history: Restarts, ran_s: float) -> Restarts:
    """Return the history after a process ended that had run for `ran_s` seconds."""
    early = 1 if ran_s >= STABLE_S else history.in_a_row + 1
    return replace(history, total=history.total + 1, in_a_row=early)


def delay_s(history: Restarts) -> float:
    """Return how long to wait before the next start: doubling from 0.1 s up to 5 s."""
    # The exponent is capped because 2.0**2000 is no float.
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(max(history.in_a_row - 1, 0), 16))


def bound_log(log: Path, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Move a log's text to `NAME.log.1` when it is longer than `max_bytes`; tell whether it was.

    The file itself stays because its writer has it open for appending. A line that is written at
    the same moment may be lost; on a full disk the older text is lost. Of a text that is far longer
    the last `max_bytes` stay.
    """
    try:
        if log.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    older = log.with_name(log.name + ".1")
    with suppress(OSError):
        older.touch()
        older.chmod(log.stat().st_mode & 0o777)
        with log.open("rb") as text, older.open("wb") as kept:
            text.seek(-max_bytes, os.SEEK_END)
            text.readline()
            shutil.copyfileobj(text, kept)
    with log.open("r+b") as file:
        file.truncate(0)
    return True


@dataclass(frozen=True, slots=True)
class Program:
    """A program to keep running.

    `command` is called before every start; `is_ready` tells whether the process is ready. Where
    there is a `watch`, a process that it has lost is restarted.
    """

    name: str
    command: Callable[[], Command]
    is_ready: Callable[[], bool]
    stop_within_s: float = 10.0
    watch: HealthWatch | None = None


class Supervised:
    """A program and its current process, if any. Times are those of the monotonic clock."""

    def __init__(self, program: Program) -> None:
        """Take the program; it is not started yet."""
        self.program = program
        self.history = Restarts()
        self.child: Child | None = None
        self.ready = False
        self.stopping = False
        self._due_s = 0.0
        self._started_s = 0.0
        self._since = 0.0
        self._identity: Identity | None = None
        self._was_ready = False
        self._why_killed = ""

    def step(self, now_s: float) -> bool:
        """Notice an end, start the program, or notice readiness. Tell whether anything changed."""
        if self.stopping:
            return False
        if self.child is not None and self.child.exit_code() is not None:
            self.child.sweep()
            reason = self._why_killed or f"exit code {self.child.exit_code()}"
            self.child, self.ready, self._why_killed = None, False, ""
            self._schedule_restart(now_s, reason)
            return True
        if self.child is None and now_s >= self._due_s:
            self._start(now_s)
            return True
        if self.child is not None and self._is_lost():
            return False
        if self.child is not None and (not self.ready or self.program.watch):
            was_ready, self.ready = self.ready, self.program.is_ready()
            self._was_ready |= self.ready
            return self.ready != was_ready
        return False

    def _is_lost(self) -> bool:
        """Kill a process that its watch has lost, and tell whether it did: its end comes next."""
        watch = self.program.watch
        if self.child is None or watch is None or watch.health != "lost":
            return False
        _log.error("process does not answer; killing it", extra={"program": self.program.name})
        self._why_killed = "no answer over the bus"
        # One that hangs, or was stopped, does not hear a softer signal.
        self.child.send(signal.SIGKILL)
        watch.begin()
        return True

    def next_s(self, now_s: float) -> float | None:
        """Return the seconds until `step` must be called; None: not before a signal."""
        if self.child is None:
            return max(0.0, self._due_s - now_s)
        if not self.ready:
            return 0.01
        return None if self.program.watch is None else _WATCH_S

    def _start(self, now_s: float) -> None:
        self._started_s, self._since = now_s, time.time()
        self.ready = self._was_ready = False
        try:
            command = self.program.command()
            bound_log(command.log)
            self.child = Child(command)
        except OSError as error:
            # A full disk, no memory or too many processes: that may pass.
            self._schedule_restart(now_s, f"could not start: {error}")
        else:
            self._identity = identify(self.child.pid)
            if self.program.watch is not None:
                self.program.watch.begin()

    def _schedule_restart(self, now_s: float, reason: str) -> None:
        self.history = after_end(self.history, now_s - self._started_s)
        delay = delay_s(self.history)
        self._due_s = now_s + delay
        _log.warning(
            "process ended; restarting it",
            extra={"program": self.program.name, "reason": reason, "delay_s": delay},
        )

    def end(self) -> None:
        """Ask its process to end; `step` then restarts it."""
        if self.child is not None:
            self.child.send(self.child.command.stop_signal)

    def reload(self) -> None:
        """Have its process read its configuration again."""
        if self.child is not None:
            self.child.send(signal.SIGHUP)

    def ask_to_stop(self) -> None:
        """Send the stop signal, and do not restart it."""
        self.stopping = True
        self.end()

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self.child is not None and self.child.exit_code() is None

    def finish_stop(self) -> None:
        """Kill its process if it still runs, and the rest of its process group."""
        if self.child is not None:
            self.child.end(timeout_s=0.0)
            self.child, self.ready = None, False

    def state(self) -> ProcessState:
        """Return its entry in the state file."""
        if self.child is None:
            phase = "stopped" if self.stopping else "waiting"
        else:
            silent = "silent" if self._was_ready else "starting"
            phase = "ready" if self.ready else silent
        identity = None if self.child is None else self._identity
        return ProcessState(self.program.name, phase, identity, self._since, self.history.total)
