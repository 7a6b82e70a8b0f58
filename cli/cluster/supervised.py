"""One process that is kept running: started, watched, started again when it ends."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from cli.cluster.child import Child, Command
from cli.cluster.identity import Identity, identify
from cli.cluster.logfiles import bound
from cli.cluster.restarts import Restarts, after_end, delay_s
from cli.cluster.state import ProcessState

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    """What to keep running: how its command is made before every start, and when it is ready."""

    name: str
    command: Callable[[], Command]
    is_ready: Callable[[], bool]
    stop_within_s: float = 10.0


class Supervised:
    """A program and its present process, if any. Times are those of the monotonic clock."""

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

    def step(self, now_s: float) -> bool:
        """Do what is due: notice an end, start, notice readiness. Tell whether anything changed."""
        if self.stopping:
            return False
        if self.child is not None and self.child.exit_code() is not None:
            self._ended(self.child, now_s)
            return True
        if self.child is None and now_s >= self._due_s:
            self._start(now_s)
            return True
        if self.child is not None and not self.ready and self.program.is_ready():
            self.ready = True
            return True
        return False

    def next_s(self, now_s: float) -> float | None:
        """Return the seconds until `step` is worth calling; None: not before a signal."""
        if self.child is None:
            return max(0.0, self._due_s - now_s)
        return None if self.ready else 0.01

    def _start(self, now_s: float) -> None:
        self._started_s, self._since, self.ready = now_s, time.time(), False
        try:
            command = self.program.command()
            bound(command.log)
            self.child = Child(command)
        except OSError as error:
            # No space, no memory, no process to be had: that may pass.
            self._again(now_s, f"could not start: {error}")
        else:
            self._identity = identify(self.child.pid)

    def _ended(self, child: Child, now_s: float) -> None:
        child.sweep()
        self.child, self.ready = None, False
        self._again(now_s, f"exit code {child.exit_code()}")

    def _again(self, now_s: float, reason: str) -> None:
        self.history = after_end(self.history, now_s - self._started_s)
        delay = delay_s(self.history)
        self._due_s = now_s + delay
        _log.warning(
            "process ended, starting it again",
            extra={"program": self.program.name, "reason": reason, "delay_s": delay},
        )

    def end(self) -> None:
        """Ask its process to end, for it to be started again."""
        if self.child is not None:
            self.child.send(self.child.command.stop_signal)

    def ask_to_stop(self) -> None:
        """Send the stop signal, and start it no more."""
        self.stopping = True
        self.end()

    @property
    def runs(self) -> bool:
        """Whether its process has not ended."""
        return self.child is not None and self.child.exit_code() is None

    def finish_stop(self) -> None:
        """Kill what has not ended, and what is left of its group."""
        if self.child is not None:
            self.child.end(timeout_s=0.0)
            self.child, self.ready = None, False

    def state(self) -> ProcessState:
        """Return what is known of it, for the state file."""
        if self.child is None:
            word = "stopped" if self.stopping else "waiting"
        else:
            word = "ready" if self.ready else "starting"
        identity = None if self.child is None else self._identity
        return ProcessState(self.program.name, word, identity, self._since, self.history.total)
