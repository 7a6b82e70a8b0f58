"""A made-up run in a real database: its rows as agents would tell and a collector would store them.

Attributes of layers and kernels are as the collectors of PyTorch's layers and of Kineto write them.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import polars as pl
from psycopg import connect

from benchmarks.tracing import Shape, run_of
from mlscope.tracing.batches import LINKED_COLUMNS, QUERY_COLUMNS
from schemas.batch import Batch, QueriesAnswered, SpanKind, TraceCaptured
from schemas.evaluation import MeasuredRun
from schemas.level import Level
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.run import ClockOrigin, Conditions, RunCompleted, Tally
from services.analyzer.store import migrate as migrate_analyzer
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of

EVALUATION, REQUESTED_NS = "bench", 1_795_226_400_000_000_000
SPANS_A_BATCH, BATCHES_A_COMMIT = 20_000, 10
QUERIES_A_PART = 200
LAYERED = Shape(50, 100, 1)
_KERNEL = (
    b'{"device": 0, "grid": [1600, 1, 1], "block": [128, 1, 1], "registers": 32, "shared_bytes": 0}'
)
MEASURED = tuple(
    MeasuredRun(run=run, attempt=1, end="completed", agent="bench") for run in ("r0", "r1")
)


def stored(address: str, queries: int) -> int:
    """Store both runs as a collector would; return how many spans there are."""
    collector.migrate(address)
    migrate_analyzer(address)
    with closing(collector.Store(address)) as rows:
        spans = _fill(rows, "r0", Shape(queries=queries), Level.SYSTEM)
        spans += _fill(rows, "r1", LAYERED, Level.FRAMEWORK)
    with connect(address, autocommit=True) as session:
        session.execute("VACUUM ANALYZE")
    return spans


def _fill(rows: collector.Store, run: str, shape: Shape, level: Level) -> int:
    """Store one run, part by part: the whole of a long one need not be held at once."""
    spans = queries = 0
    waiting: list[Batch] = []
    for sequence, batch in enumerate(_batches(run, shape, level)):
        waiting.append(batch)
        if isinstance(batch, TraceCaptured):
            spans += batch.count
        else:
            queries += batch.count
        if sequence % BATCHES_A_COMMIT == BATCHES_A_COMMIT - 1:
            rows.save([prepared_of(waiting_batch, REQUESTED_NS) for waiting_batch in waiting])
            waiting.clear()
    if waiting:
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in waiting])
    run_plan = RunPlan(run=run, group=0, scenario="online", level=level, queries=1)
    session = SessionPlan(session="s0", agent="bench", batch_size=8, runs=(run_plan,))
    plan = Plan(subject=_subject(), sessions=(session,))
    end = RunCompleted(
        evaluation=EVALUATION,
        run=run,
        attempt=1,
        agent="bench",
        tally=Tally(spans=spans, queries=queries),
        origin=ClockOrigin(monotonic_ns=1, epoch_start_ns=2),
        conditions=Conditions(framework_version="2.11", device="cuda"),
        level=level,
    )
    rows.end_run(run_row(end, plan, REQUESTED_NS, "c0"))
    return spans


def _batches(run: str, shape: Shape, level: Level) -> Iterator[Batch]:
    """Yield a run's batches: its queries' parts are alike and follow one another."""
    size = min(QUERIES_A_PART, shape.queries)
    part = run_of(Shape(size, shape.layers, shape.launches), level=level)
    length_ns = int((part.spans["start_ns"] + part.spans["duration_ns"]).max() or 0)  # type: ignore[arg-type]
    names = {
        text: number for number, text in enumerate(part.spans["name"].unique(maintain_order=True))
    }
    spans = part.spans.with_columns(
        pl.col("name").replace_strict(names, return_dtype=pl.Int32),
        pl.col("parent", "correlation").fill_null(-1),
    )
    # What a framework says of each layer.
    attributes = ("type", "shape", "memory_bytes", "flops", "bytes_read", "bytes_written")
    layers = part.layers.select(pl.col("layer").alias("index"), *attributes, "memory_kind")
    notes = [json.dumps(row).encode() for row in layers.to_dicts()]
    sequence = 0
    for number in range(-(-shape.queries // size)):
        shift = {"start_ns": number * (length_ns + 50_000), "query": number * size}
        shift |= {"span": number * spans.height, "correlation": number * shape.all_launches}
        moved = _moved(spans, shift)
        for first in range(0, spans.height, SPANS_A_BATCH):
            yield _traced(run, sequence, moved[first : first + SPANS_A_BATCH], names, notes)
            sequence += 1
        yield _answered(
            run, number, _moved(part.queries, {"query": shift["query"]}, shift["start_ns"])
        )


def _moved(frame: pl.DataFrame, shift: dict[str, int], later_ns: int = 0) -> pl.DataFrame:
    """Return rows with what is known (not below 0) moved on."""
    stamps = [name for name in ("issued_ns", "started_ns", "ended_ns") if name in frame.columns]
    moves = shift | dict.fromkeys(stamps, later_ns)
    return frame.with_columns(
        pl.when(pl.col(name) < 0).then(pl.col(name)).otherwise(pl.col(name) + by).alias(name)
        for name, by in moves.items()
    )


def _traced(
    run: str, sequence: int, spans: pl.DataFrame, names: dict[str, int], notes: list[bytes]
) -> TraceCaptured:
    layer, kind = spans["layer"].fill_null(-1).to_list(), spans["kind"].to_numpy()
    is_kernel = np.isin(kind, [int(SpanKind.KERNEL), int(SpanKind.COPY)])
    rows = np.flatnonzero(is_kernel | (spans["layer"].is_not_null().to_numpy()))
    texts = tuple(_KERNEL if is_kernel[row] else notes[layer[row]] for row in rows.tolist())
    used = set(spans["name"].unique().to_list())
    chosen = {number: text for text, number in names.items() if number in used}
    packed: Any = {
        name: spans[name].to_numpy().astype(kind).tobytes() for name, kind in LINKED_COLUMNS.items()
    }
    return TraceCaptured(
        evaluation=EVALUATION,
        run=run,
        attempt=1,
        agent="bench",
        sequence=sequence,
        count=spans.height,
        name_ids=tuple(chosen),
        name_texts=tuple(chosen.values()),
        attribute_rows=tuple(rows.tolist()),
        attribute_texts=texts,
        **packed,
    )


def _answered(run: str, sequence: int, queries: pl.DataFrame) -> QueriesAnswered:
    packed: Any = {
        name: queries[name].cast(pl.Int64).fill_null(-1).to_numpy().astype(kind).tobytes()
        for name, kind in QUERY_COLUMNS.items()
    }
    return QueriesAnswered(
        evaluation=EVALUATION,
        run=run,
        attempt=1,
        agent="bench",
        sequence=sequence,
        count=queries.height,
        **packed,
    )


def _subject() -> Subject:
    model = ModelManifest(
        name="made-up",
        version="1.0.0",
        framework=FrameworkNeed(name="pytorch"),
        inputs=(),
        outputs=(),
        model=Assets(),
    )
    return Subject(model=model, dataset=DatasetManifest(name="noise"), framework="pytorch")
