"""What the cluster's own servers share: a program in a child process, used as a context."""

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Self

from cli.cluster.child import Child, Command, wait_until


class Server(ABC):
    """A server of one folder; `with` starts it and stops it. Its data are kept."""

    #: how long it may take until it answers, and to end in good order
    ready_within_s: ClassVar[float] = 30.0
    stop_within_s: ClassVar[float] = 10.0
    _child: Child | None = None

    @abstractmethod
    def command(self) -> Command:
        """Return how it is run, what it needs on disk made."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether it answers."""

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._child is not None, "not started"
        return self._child.pid

    def start(self, timeout_s: float | None = None) -> Self:
        """Start it and wait until it answers, by default its own time. Raises NotReady."""
        self._child = Child(self.command())
        wait_until(self.is_ready, self._child, timeout_s or self.ready_within_s)
        return self

    def stop(self) -> None:
        """End it in good order."""
        if self._child is not None:
            self._child.stop(timeout_s=self.stop_within_s)
            self._child = None

    def kill(self) -> None:
        """End it as a power cut of the process would: SIGKILL; its children end by themselves."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            self._child.wait(10.0)
            self._child = None

    def __enter__(self) -> Self:
        """Start it and return it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()
