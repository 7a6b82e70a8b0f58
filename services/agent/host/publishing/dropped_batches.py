"""The batches of a run that never reached the log, counted in its outcome. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, QueriesAnswered
from schemas.run import RunCompleted
from services.agent.link.messages import Outcome

_BATCHES = ("trace_batches", "query_batches", "output_batches")
ROWS = {"trace": "spans", "query": "queries", "output": "outputs"}
"""What the rows of a batch are called, by the entity of its subject."""


@dataclass(frozen=True, slots=True)
class DroppedBatches:
    """Counts of dropped batches and of the rows in them, by the tally's names; and the reason."""

    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


def batch_counts(fact: Batch) -> dict[str, int]:
    """Return what one batch adds to a tally: itself, its rows, failed queries and samples."""
    counts = {f"{fact.entity}_batches": 1, ROWS[fact.entity]: fact.count}
    if isinstance(fact, QueriesAnswered) and (answered := fact.status.count(0)) < fact.count:
        counts["failed_queries"] = fact.count - answered
    if isinstance(fact, QueriesAnswered) and fact.failed:
        counts["failed_samples"] = int(columns_of(fact)["failed"].clip(min=0).sum())
    return counts


def with_stored_counts(
    outcome: Outcome, sent: Mapping[str, int], dropped: DroppedBatches
) -> Outcome:
    """Return an outcome that announces the stored batches and counts the others as dropped.

    The outcome's own tally counts what the worker handed over, `sent` what was sent of that, and
    `dropped` what was sent but not stored. Batches never sent are dropped as well. Failed queries
    stay counted.
    """
    names = (*_BATCHES, *ROWS.values())
    stored = {name: sent.get(name, 0) - dropped.counts.get(name, 0) for name in names}
    dropped_batches = sum(getattr(outcome.tally, name) - stored[name] for name in _BATCHES)
    if dropped_batches <= 0:
        return outcome
    tally = outcome.tally
    counts = {**stored, "dropped_batches": tally.dropped_batches + dropped_batches}
    caveat = f"{dropped_batches} batches were dropped: {dropped.reason}"
    changes: dict[str, object] = {"tally": tally.model_copy(update=counts)}
    if isinstance(outcome, RunCompleted):
        changes["caveats"] = (*outcome.caveats, caveat)
    else:
        changes["message"] = f"{outcome.message}; {caveat}"
    return outcome.model_copy(update=changes)
