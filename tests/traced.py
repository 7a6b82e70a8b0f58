"""A traced run in a database: what tests of traces read."""

from contextlib import closing

from mlscope.tracing.batches import trace_batch
from services.analyzer.store import migrate
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    an_attempt,
    some_queries,
)


def store_traced_run(database_url: str, **conditions: int) -> None:
    """Store run r0 of evaluation e1: 12 spans in batches 0 and 2, of 3 with 20 spans together.

    `conditions` are those of the run to change.
    """
    collector.migrate(database_url)
    migrate(database_url)
    rows = [(10 + n, -1, 2, 7, 100 * n, 5, 0, n, 0, b"") for n in range(10)]
    batches = (a_linked_trace(), trace_batch(an_attempt(), 2, rows, {"predict": 7}), some_queries())
    completed = a_completion()
    tally = completed.tally.model_copy(update={"spans": 20, "trace_batches": 3})
    measured = completed.conditions.model_copy(update=conditions)
    ended = completed.model_copy(update={"tally": tally, "conditions": measured})
    with closing(collector.Store(database_url)) as stored:
        stored.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        stored.end_run(run_row(ended, a_plan().plan, REQUESTED_NS, "c0"))
