"""The value of one metric over a dataset, or the reason that it has none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlscope.accuracy import Outcome
from mlscope.counts import many
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one metric; `unit` is that of its value, `counts` names what `n` counts."""

    outcome: Outcome
    counts: str = "samples"
    unit: str = "1"
    #: number of samples that it was computed from
    judged: int = 0


Judge = Callable[[Sequence[Prediction], ScoringContext], list[Judgement]]


def unjudged(name: str, reasons: Sequence[str]) -> Judgement:
    """Return a judgement without value: no sample could be judged, for these `reasons`."""
    return Judgement(warned(Outcome(name, None, 0, None, "", (), len(reasons)), reasons))


def warned(outcome: Outcome, reasons: Sequence[str]) -> Outcome:
    """Return an outcome with a caveat: how many samples were not judged, and the first reason."""
    if not reasons:
        return outcome
    return outcome.warning(
        f"{many(len(reasons), 'sample')} could not be judged, first: {reasons[0]}"
    )
