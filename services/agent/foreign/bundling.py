"""A recording as a bundle: the facts an agent would have said, had it measured this itself."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

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
from schemas.identity import token_of
from schemas.message import Fact, derived_id
from schemas.plan import OfflinePlan
from schemas.run import BlockStatistics, ClockOrigin, Conditions, RunCompleted, Tally
from services.agent.bundle import BundleWriter
from services.agent.foreign.recording import Recording

SPANS_A_BATCH = 5_000
QUERIES_A_BATCH = 5_000


async def write_bundle(path: Path, plan: OfflinePlan, recording: Recording) -> None:
    """Write a plan of one run, and what the recording says of it. Raises OSError."""
    cause = derived_id(plan.evaluation, "imported")
    with BundleWriter(path) as bundle:
        for number, fact in enumerate(facts_of(plan, recording)):
            await bundle.put(fact, id=derived_id(cause, fact.schema_name(), number), cause=cause)


def facts_of(plan: OfflinePlan, recording: Recording) -> Iterator[Fact]:
    """Yield the facts in the order in which they would have been said."""
    (session,) = plan.plan.sessions
    (run,) = session.runs
    attempt = Attempt(plan.evaluation, run.run, 1, session.agent)
    yield EvaluationPlanned(evaluation=plan.evaluation, plan=plan.plan)
    yield AgentAnnounced(
        agent=session.agent, announcement=announcement_of(session.agent, recording)
    )
    traces = queries = 0
    for trace in _traces(attempt, recording.spans):
        traces += 1
        yield trace
    for batch in _queries(attempt, recording.roots, session.batch_size):
        queries += 1
        yield batch
    tally = Tally(
        trace_batches=traces,
        query_batches=queries,
        spans=recording.spans.height,
        queries=recording.roots.height,
    )
    yield _completed(attempt, recording, tally)


def announcement_of(agent: str, recording: Recording) -> Announcement:
    """Return the machine as far as the file tells."""
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


def _completed(attempt: Attempt, recording: Recording, tally: Tally) -> RunCompleted:
    caveats = (f"imported from a file of {recording.tool}: conditions are unknown",)
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
        level_note=f"imported: one run of {recording.tool} tells of all its levels",
        blocks=tuple(
            BlockStatistics(block=block, queries=count, median_ns=int(median))
            for block, count, median in medians.iter_rows()
        ),
        caveats=(*caveats, *recording.notes),
    )


def _traces(attempt: Attempt, spans: pl.DataFrame) -> Iterator[TraceCaptured]:
    names = {name: number for number, name in enumerate(spans["name"].unique(maintain_order=True))}
    for sequence, part in enumerate(spans.iter_slices(SPANS_A_BATCH)):
        rows = [_row(row, names) for row in part.iter_rows()]
        yield linked_batch(attempt, sequence, rows, names)


def _row(row: tuple[object, ...], names: dict[str, int]) -> LinkedRow:
    span, parent, level, name, start, duration, thread, query, block, kind, link, text = row
    known = ABSENT if parent is None else parent
    attributes = str(text).encode() if text else b""
    number = names[str(name)]
    return (  # type: ignore[return-value]
        *(span, known, level, number, start, duration, thread, query, block),
        *(attributes, kind, link),
    )


def _queries(attempt: Attempt, roots: pl.DataFrame, size: int) -> Iterator[QueriesAnswered]:
    columns = ("query", "block", "start_ns", "duration_ns")
    for sequence, part in enumerate(roots.select(columns).iter_slices(QUERIES_A_BATCH)):
        rows: list[QueryRow] = [
            (query, block, size, ABSENT, at, at, at + ns, ns, ANSWERED, "")
            for query, block, at, ns in part.iter_rows()
        ]
        yield query_batch(attempt, sequence, rows)
