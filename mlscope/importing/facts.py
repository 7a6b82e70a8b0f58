"""A recording as the facts that an agent would have published, and as a bundle of them."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from mlscope.exchange.bundle import BundleWriter
from mlscope.importing.recording import Recording
from mlscope.tracing.batches import (
    ABSENT,
    ANSWERED,
    Attempt,
    QueryRow,
    linked_batch,
    query_batch,
)
from mlscope.tracing.spans import LinkedRow
from schemas.agent import Accelerator, AgentAnnounced, Announcement, Hardware, Runtime
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.evaluation import EvaluationPlanned
from schemas.message import Fact, derived_id
from schemas.plan import OfflinePlan
from schemas.run import BlockStatistics, ClockOrigin, Conditions, RunCompleted, Tally
from schemas.values.identity import token_of

SPANS_PER_BATCH = 5_000
QUERIES_PER_BATCH = 5_000


async def write_bundle(path: Path, plan: OfflinePlan, recording: Recording) -> None:
    """Write a bundle of a recording. Raises OSError.

    `path`: of the file to write. `plan`: of one run, the one that the recording is.
    """
    cause = derived_id(plan.evaluation, "imported")
    with BundleWriter(path) as bundle:
        for number, fact in enumerate(facts_of(plan, recording)):
            await bundle.put(fact, id=derived_id(cause, fact.schema_name(), number), cause=cause)


def facts_of(plan: OfflinePlan, recording: Recording) -> Iterator[Fact]:
    """Yield the facts of a run in the order in which an agent publishes them."""
    (session,) = plan.plan.sessions
    (run,) = session.runs
    attempt = Attempt(plan.evaluation, run.run, 1, session.agent)
    yield EvaluationPlanned(evaluation=plan.evaluation, plan=plan.plan)
    yield AgentAnnounced(
        agent=session.agent, announcement=announcement_of(session.agent, recording)
    )
    trace_batches = query_batches = 0
    for trace in _trace_batches_of(attempt, recording.spans):
        trace_batches += 1
        yield trace
    for batch in _query_batches_of(attempt, recording.roots, session.batch_size):
        query_batches += 1
        yield batch
    tally = Tally(
        trace_batches=trace_batches,
        query_batches=query_batches,
        spans=recording.spans.height,
        queries=recording.roots.height,
    )
    yield _completion_of(attempt, recording, tally)


def announcement_of(agent: str, recording: Recording) -> Announcement:
    """Return the machine as far as the file describes it."""
    accelerators = (Accelerator(name=recording.accelerator),) if recording.accelerator else ()
    return Announcement(
        agent=agent,
        incarnation=token_of(f"imported-{recording.tool}"),
        hardware=Hardware(
            hostname=recording.host, architecture="unknown", accelerators=accelerators
        ),
        runtimes=(
            Runtime(framework=recording.framework, version="unknown", devices=(recording.device,)),
        ),
    )


def _trace_batches_of(attempt: Attempt, spans: pl.DataFrame) -> Iterator[TraceCaptured]:
    """Yield the batches of an attempt's `spans` (SPAN_SCHEMA), in their order."""
    names = {name: number for number, name in enumerate(spans["name"].unique(maintain_order=True))}
    columns = (
        "span",
        pl.col("parent").fill_null(ABSENT),
        "level",
        pl.col("name").replace_strict(names, return_dtype=pl.Int64),
        "start_ns",
        "duration_ns",
        "thread",
        "query",
        "block",
        pl.col("attributes").fill_null("").cast(pl.Binary),
        "kind",
        "correlation",
    )
    for sequence, part in enumerate(spans.iter_slices(SPANS_PER_BATCH)):
        rows: list[LinkedRow] = part.select(columns).rows()
        yield linked_batch(attempt, sequence, rows, names)


def _query_batches_of(
    attempt: Attempt, roots: pl.DataFrame, batch_size: int
) -> Iterator[QueriesAnswered]:
    """Yield the batches of an attempt's queries, all answered, of `batch_size` samples each.

    `roots` are their root spans (SPAN_SCHEMA), in order.
    """
    columns = ("query", "block", "start_ns", "duration_ns")
    for sequence, part in enumerate(roots.select(columns).iter_slices(QUERIES_PER_BATCH)):
        rows: list[QueryRow] = [
            (
                query,
                block,
                batch_size,
                ABSENT,
                start_ns,
                start_ns,
                start_ns + duration_ns,
                duration_ns,
                ANSWERED,
                "",
            )
            for query, block, start_ns, duration_ns in part.iter_rows()
        ]
        yield query_batch(attempt, sequence, rows)


def _completion_of(attempt: Attempt, recording: Recording, tally: Tally) -> RunCompleted:
    """Return the end of an `attempt`, with as many conditions as a `recording` holds.

    `tally`: how many batches, spans and queries were published before it.
    """
    medians = recording.roots.group_by("block", maintain_order=True).agg(
        pl.len(), pl.col("duration_ns").median().alias("median_ns")
    )
    return RunCompleted(
        evaluation=attempt.evaluation,
        run=attempt.run,
        attempt=attempt.attempt,
        agent=attempt.agent,
        tally=tally,
        origin=ClockOrigin(monotonic_ns=0, epoch_start_ns=recording.epoch_ns),
        conditions=Conditions(
            framework=recording.framework,
            device=recording.device,
            accelerator=recording.accelerator,
        ),
        level=recording.level,
        level_note=f"imported: one run of {recording.tool} covers all its levels",
        blocks=tuple(
            BlockStatistics(block=block, queries=count, median_ns=int(median))
            for block, count, median in medians.iter_rows()
        ),
        caveats=(
            f"imported from a file of {recording.tool}: conditions are unknown",
            *recording.notes,
        ),
    )
