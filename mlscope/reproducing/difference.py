"""A difference between a reference log and a repeated run, and the verdict on all. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

IDENTICAL = "identical"
SAME, NOT_SAME, NOT_COMPARED = "the same", "not the same", "not compared"


@dataclass(frozen=True, slots=True)
class Difference:
    """One comparison; `aspect` is hardware, software, conditions, performance or predictions."""

    aspect: str
    #: the run or the agent
    subject: str
    name: str
    before: str
    now: str
    note: str = ""
    is_same: bool = False
    is_compared: bool = True
    #: `before` and `now` for people, with units, where that is another text
    with_units: tuple[str, str] | None = None


def verdict_on_predictions(comparisons: Iterable[Difference]) -> str:
    """Return `SAME` if every run was paired and its answers were compared and equal.

    `NOT_SAME` where some answers differ, `NOT_COMPARED` where a run has no answers to compare.
    """
    on_answers = [item for item in comparisons if item.aspect in ("predictions", "runs")]
    compared = [item for item in on_answers if item.is_compared]
    if any(not item.is_same for item in compared):
        return NOT_SAME
    return SAME if compared and len(compared) == len(on_answers) else NOT_COMPARED
