"""What one metric says of a dataset, and that it could not say it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlscope.accuracy import Outcome
from mlscope.counts import many
from services.analyzer.frames import Aim
from services.analyzer.predictions import Prediction


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one metric says; `unit` is the value's, `counts` what its `n` counts."""

    outcome: Outcome
    counts: str = "samples"
    unit: str = "1"
    #: samples it was computed of
    judged: int = 0


Judge = Callable[[Sequence[Prediction], Aim], list[Judgement]]


def unjudged(name: str, failed: Sequence[str]) -> Judgement:
    """Return that a metric has no value, as none of `failed` (reasons) could be judged."""
    return Judgement(warned(Outcome(name, None, 0, None, "", (), len(failed)), failed))


def warned(outcome: Outcome, failed: Sequence[str]) -> Outcome:
    """Return an outcome that says how many samples could not be judged, and why the first."""
    if not failed:
        return outcome
    return outcome.warning(f"{many(len(failed), 'sample')} could not be judged, first: {failed[0]}")
