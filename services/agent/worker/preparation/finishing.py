"""Post-processing in a process of its own: outputs go there, answers and stamps come back (I/O).

It is forked from the server of preparing processes. Where the steps raise, the worker carries them
out itself, which finds the samples at fault; where the process ends, another one tries once more.
"""

from collections.abc import Callable

from mlscope.tracing.clock import now_ns
from services.agent.errors import ProcessesUnavailable
from services.agent.predictors import Tensors
from services.agent.worker.preparation.finishing_wire import Finished, received, send
from services.agent.worker.preparation.processes import ForkedProcess

_POLL_S = 0.05
_MOST_TRIES, _MOST_DEATHS = 2, 32


class FinishFailed(Exception):
    """The processes that post-process a query ended, or took too long."""


class FinishingProcess:
    """The process as the worker holds it; one thread finishes queries in it.

    `fork` returns a new one and `end` ends one, with how it ended; both raise ProcessesUnavailable.
    """

    def __init__(
        self,
        fork: Callable[[], ForkedProcess],
        end: Callable[[ForkedProcess], str],
        timeout_s: float,
    ) -> None:
        """Fork the first one; a query may take `timeout_s`. Raises ProcessesUnavailable."""
        self._fork, self._end, self._timeout_ns = fork, end, int(timeout_s * 1e9)
        self._process: ForkedProcess | None = fork()
        self._is_given_up = False
        #: processes that ended before they were told to
        self.deaths = 0

    def finished(self, outputs: Tensors) -> Finished | None:
        """Return what the steps make of outputs; None where a step raises.

        Raises FinishFailed where the process ended twice, and where it took too long or was given
        up.
        """
        ending = ""
        for _ in range(_MOST_TRIES):
            if self._process is None:
                try:
                    if self.deaths > _MOST_DEATHS:
                        raise ProcessesUnavailable(f"{_MOST_DEATHS} processes have ended")
                    self._process = self._fork()
                except ProcessesUnavailable as error:
                    raise FinishFailed(error.reason) from error
            process = self._process
            try:
                return self._answer_of(process, outputs)
            except OSError:
                ending = self._ended(process)
        raise FinishFailed(ending)

    def begin_block(self) -> None:
        """Finish queries again, after an earlier run was given up."""
        self._is_given_up = False

    def give_up(self) -> None:
        """Have the thread that waits for an answer go on without it."""
        self._is_given_up = True

    @property
    def pid(self) -> int:
        """The id of the process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    def close(self) -> None:
        """Close the connection; the process ends with its server."""
        if self._process is not None:
            self._process.orders.close()
        self._process = None

    def _answer_of(self, process: ForkedProcess, outputs: Tensors) -> Finished | None:
        """Send outputs to a process and return its answer. Raises OSError, FinishFailed."""
        until_ns = now_ns() + self._timeout_ns

        def is_over() -> bool:
            return self._is_given_up or now_ns() > until_ns

        process.orders.settimeout(_POLL_S)
        try:
            send(process.orders, dict(outputs), is_over)
            answer: tuple[Finished | None] | None = received(
                process.orders, is_over, is_wrapped=True
            )
        except TimeoutError as error:
            self._ended(process)
            how = "was given up" if self._is_given_up else "took too long"
            raise FinishFailed(how) from error
        if answer is None:
            raise ConnectionResetError
        return answer[0]

    def _ended(self, process: ForkedProcess) -> str:
        """End a process, unless it has ended; return how it did."""
        self.deaths += not self._is_given_up
        self._process = None
        process.orders.settimeout(None)  # or a look whether it has ended would wait
        return self._end(process)
