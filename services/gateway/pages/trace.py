"""The page of a trace: which run is shown, and which others there are. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from mlscope.evaluation.fold import ENDED
from mlscope.exchange.formats import SPAN_FORMATS, SpanFormat
from schemas.status import EvaluationStatus, RunStatus


@dataclass(frozen=True, slots=True)
class TraceView:
    """One run of an evaluation on a timeline; `run` is None where there is none to show."""

    status: EvaluationStatus
    run: RunStatus | None
    asked: str
    template: ClassVar[str] = "trace.html"

    @property
    def title(self) -> str:
        """The model, the run and the evaluation's id."""
        run = self.run.run if self.run else ""
        return " ".join(part for part in ("Trace", self.status.model, run) if part)

    @property
    def formats(self) -> Iterable[tuple[str, SpanFormat]]:
        """The formats in which the run can be downloaded, by name."""
        return SPAN_FORMATS.items()

    @property
    def is_live(self) -> bool:
        """Whether the run still brings spans."""
        return self.status.state not in ENDED

    @property
    def note(self) -> str:
        """What is wrong with what was asked for, '' if nothing."""
        if self.asked and (self.run is None or self.run.run != self.asked):
            return f"This evaluation has no run {self.asked}; choose one of the list."
        return ""


def trace_view(status: EvaluationStatus, asked: str) -> TraceView:
    """Return the view of the run `asked` for, else of the run with most spans.

    `status` is the evaluation's; a run that does not exist is said so beside the list of runs.
    """
    named = [run for run in status.runs if run.run == asked]
    deepest = sorted(status.runs, key=lambda run: (run.spans, run.level), reverse=True)
    shown = named or ([] if asked else deepest)
    return TraceView(status, shown[0] if shown else None, asked)
