"""The boundary to code that is not the agent's: frameworks, a model's own code, its builder."""

from collections.abc import Callable
from functools import partial
from types import TracebackType

from services.agent.errors import AgentError, OpenFailed, PredictFailed
from services.agent.predictors.shapes import first_line


class ForeignCode:
    """A context that raises an error of the agent's for whatever foreign code raises.

    The frameworks' errors share no root, and a model's own code raises what it likes. The agent's
    own errors pass as they are, and so does what ends a process. It may be entered again. A class,
    because a generator takes a microsecond more of each predict call.
    """

    __slots__ = ("_error_of",)

    def __init__(self, error_of: Callable[[str], AgentError]) -> None:
        """Take what makes the agent's error from the first line of the foreign one."""
        self._error_of = error_of

    def __enter__(self) -> None:
        """Run foreign code from here on."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise the agent's error where the code raised another one."""
        if isinstance(error, Exception) and not isinstance(error, AgentError):
            raise self._error_of(first_line(error)) from error


PREDICTING = ForeignCode(PredictFailed)
"""Around a predict call: raises PredictFailed."""


def opening_model(model: str) -> ForeignCode:
    """Return what surrounds the opening of a model of this name: raises OpenFailed."""
    return ForeignCode(partial(OpenFailed, model))
