"""What the issuer of a remote load says of it, as part of how its run ended. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from schemas.run import RunCompleted, RunFailed, Tally

LATE_NS = 1_000_000
"""Issue later than this at the 99th percentile is a caveat."""
LATENESS = "issue_lateness_p99_ns"
"""Where the conditions say how late queries were issued."""

_LONGEST = 200
_COUNTED = ("query_batches", "queries", "failed_queries")
_FAILED_SAMPLES = "failed_samples"

Outcome = RunCompleted | RunFailed


@dataclass(frozen=True, slots=True)
class Issued:
    """A load as its issuer saw it; `failed_queries` of the tally includes the lost ones."""

    tally: Tally
    lost_queries: int = 0
    late_p99_ns: int | None = None

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """Return what a `finish` command says. Raises KeyError, ValueError, TypeError."""
        late = words.get("late_p99_ns")
        return cls(
            Tally(
                **{name: int(words[name]) for name in _COUNTED},
                failed_samples=int(words.get(_FAILED_SAMPLES, 0)),
            ),
            int(words.get("lost_queries", 0)),
            None if late is None else int(late),
        )

    def said_in(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the issuer's queries in its tally, conditions and caveats."""
        counts = {name: getattr(self.tally, name) for name in (*_COUNTED, _FAILED_SAMPLES)}
        changes: dict[str, Any] = {"tally": outcome.tally.model_copy(update=counts)}
        if self.late_p99_ns is not None:
            noise = {**outcome.conditions.noise, LATENESS: self.late_p99_ns}
            changes["conditions"] = outcome.conditions.model_copy(update={"noise": noise})
        if isinstance(outcome, RunCompleted):
            changes["caveats"] = (*outcome.caveats, *self._notes())
        return outcome.model_copy(update=changes)

    def _notes(self) -> Sequence[str]:
        notes, tally = [], self.tally
        if tally.failed_queries:
            notes.append(failed_note(tally))
        if tally.failed_samples:
            notes.append(partial_note(tally))
        if self.lost_queries:
            notes.append(f"{self.lost_queries} of {tally.queries} queries got no answer")
        if self.late_p99_ns is not None and self.late_p99_ns > LATE_NS:
            notes.append(late_note(self.late_p99_ns))
        return notes


def failed_note(tally: Tally, first: str = "") -> str:
    """Return the caveat of failed queries; `first` is why the first of them did."""
    why = f", first: {short(first)}" if first else ""
    return f"{tally.failed_queries} of {tally.queries} queries failed{why}"


def partial_note(tally: Tally, first: str = "") -> str:
    """Return the caveat of samples that failed in queries answered in part."""
    why = f", first: {short(first)}" if first else ""
    return f"{tally.failed_samples} samples failed in queries that were answered in part{why}"


def short(error: str) -> str:
    """Return an error as long as a caveat may be."""
    return error if len(error) <= _LONGEST else f"{error[: _LONGEST - 1]}…"


def late_note(late_p99_ns: float) -> str:
    """Return the caveat of late issue."""
    return f"queries were issued late: p99 {late_p99_ns / 1e6:.2f} ms"
