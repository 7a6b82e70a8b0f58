"""What the issuer of a remote load reports about it, added to the outcome of its run. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mlscope.texts.shortening import at_most
from schemas.run import RunCompleted, Tally
from services.agent.link.messages import Outcome

LATE_NS = 1_000_000
"""A 99th percentile of issue lateness above this is a caveat."""
LATENESS = "issue_lateness_p99_ns"
"""The key of `Conditions.noise` that holds how late queries were issued."""

_MOST_CHARACTERS = 200
_REQUIRED_COUNTS = ("query_batches", "queries", "failed_queries")
_FAILED_SAMPLES = "failed_samples"


@dataclass(frozen=True, slots=True)
class IssuedLoad:
    """A load as its issuer saw it; the tally's `failed_queries` include the lost ones."""

    tally: Tally
    lost_queries: int = 0
    late_p99_ns: int | None = None
    #: see `Conditions.blocks_ended`
    blocks_ended: str = ""
    #: what its result lacks where it ended before the stop rule was satisfied
    stop_caveat: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the load from the fields of a `finish` command.

        Raises KeyError, ValueError, TypeError.
        """
        late_p99_ns = fields.get("late_p99_ns")
        return cls(
            Tally(
                **{name: int(fields[name]) for name in _REQUIRED_COUNTS},
                failed_samples=int(fields.get(_FAILED_SAMPLES, 0)),
            ),
            int(fields.get("lost_queries", 0)),
            None if late_p99_ns is None else int(late_p99_ns),
            str(fields.get("blocks_ended", "")),
            shortened(str(fields.get("stop_caveat", ""))),
        )

    def added_to(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the issuer's queries in its tally, conditions and caveats."""
        counts = {name: getattr(self.tally, name) for name in (*_REQUIRED_COUNTS, _FAILED_SAMPLES)}
        changes: dict[str, Any] = {"tally": outcome.tally.model_copy(update=counts)}
        observed: dict[str, Any] = {"blocks_ended": self.blocks_ended}
        if self.late_p99_ns is not None:
            observed["noise"] = {**outcome.conditions.noise, LATENESS: self.late_p99_ns}
        changes["conditions"] = outcome.conditions.model_copy(update=observed)
        if isinstance(outcome, RunCompleted):
            changes["caveats"] = (*outcome.caveats, *self.caveats())
        return outcome.model_copy(update=changes)

    def caveats(self) -> Sequence[str]:
        """Return what a reader of the run must know about the load."""
        caveats, tally = [], self.tally
        if tally.failed_queries:
            caveats.append(failed_queries_caveat(tally))
        if tally.failed_samples:
            caveats.append(failed_samples_caveat(tally))
        if self.lost_queries:
            caveats.append(f"{self.lost_queries} of {tally.queries} queries got no answer")
        if self.late_p99_ns is not None and self.late_p99_ns > LATE_NS:
            caveats.append(late_issue_caveat(self.late_p99_ns))
        if self.stop_caveat:
            caveats.append(self.stop_caveat)
        return caveats


def failed_queries_caveat(tally: Tally, first_error: str = "") -> str:
    """Return the caveat of failed queries, with the error of the first one where it is known."""
    return f"{tally.failed_queries} of {tally.queries} queries failed{_first(first_error)}"


def failed_samples_caveat(tally: Tally, first_error: str = "") -> str:
    """Return the caveat of failed samples in queries that were answered in part."""
    count = tally.failed_samples
    return f"{count} samples failed in queries that were answered in part{_first(first_error)}"


def _first(error: str) -> str:
    return f", first: {shortened(error)}" if error else ""


def shortened(error: str) -> str:
    """Return an error cut to the length of a caveat."""
    return at_most(error, _MOST_CHARACTERS)


def late_issue_caveat(late_p99_ns: float) -> str:
    """Return the caveat of queries issued late."""
    return f"queries were issued late: p99 {late_p99_ns / 1e6:.2f} ms"
