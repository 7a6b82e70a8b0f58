"""What became of a run's batches between its worker and the log, as part of how it ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, QueriesAnswered
from schemas.run import RunCompleted
from services.agent.issued import Outcome

_BATCHES = ("trace_batches", "query_batches", "output_batches")
_ROWS = {"trace": "spans", "query": "queries", "output": "outputs"}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Batches, and rows in them, that never became safe, by the tally's names; and why."""

    counts: Mapping[str, int] = field(default_factory=dict)
    why: str = ""


def counts_of(fact: Batch) -> dict[str, int]:
    """Return what one batch adds to a tally: itself, its rows, and queries that failed."""
    counts = {f"{fact.entity}_batches": 1, _ROWS[fact.entity]: fact.count}
    if isinstance(fact, QueriesAnswered) and (answered := fact.status.count(0)) < fact.count:
        counts["failed_queries"] = fact.count - answered
    if isinstance(fact, QueriesAnswered) and fact.failed:
        counts["failed_samples"] = int(columns_of(fact)["failed"].clip(min=0).sum())
    return counts


def announced(outcome: Outcome, sent: Mapping[str, int], dropped: Dropped) -> Outcome:
    """Return an outcome that announces what is safe and counts the rest as dropped.

    Its own tally says what the worker handed over; `sent` is what was put of it, `dropped` what
    of that is not safe. What was never put is dropped as well. Queries that failed stay counted.
    """
    names = (*_BATCHES, *_ROWS.values())
    safe = {name: sent.get(name, 0) - dropped.counts.get(name, 0) for name in names}
    lost = sum(getattr(outcome.tally, name) - safe[name] for name in _BATCHES)
    if lost <= 0:
        return outcome
    tally = outcome.tally
    said = {**safe, "dropped_batches": tally.dropped_batches + lost}
    note = f"{lost} batches were let go: {dropped.why}"
    changes: dict[str, object] = {"tally": tally.model_copy(update=said)}
    if isinstance(outcome, RunCompleted):
        changes["caveats"] = (*outcome.caveats, note)
    else:
        changes["message"] = f"{outcome.message}; {note}"
    return outcome.model_copy(update=changes)
