"""Kinds of work: which share convolution, attention and other kinds of layers have."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import (
    layers_of,
    no_layers,
)
from services.analyzer.tables.stacks import depth_doubts, layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    run_cells,
    trace_doubts,
)
from services.analyzer.tables.type_sums import time_columns, time_rows

KINDS = (
    ("attention", r"(?i)attention|sdpa|mha\b"),
    ("convolution", r"(?i)conv(e?r?$|[^e]|e[^r]|er[^t])"),
    ("matrix product", r"(?i)gemm|matmul|linear|dense|fullyconnected|inner_?product|einsum|^fc$"),
    ("normalisation", r"(?i)norm"),
    ("pooling", r"(?i)pool"),
    ("other", r""),
)
"""Kinds by the type that a framework gives a layer; the first that fits counts."""
_NO_SHARES = {"share_of_layers": None, "share": None}


def work_kinds(frames: Frames) -> Table:
    """Return a row a kind of layer, most time first in a run."""
    rows = [row for run in layered_runs(frames) for row in _rows(run)]
    verdict = no_layers(frames)
    if rows:
        first = {row["kind"]: row for row in rows if row["run"] == rows[0]["run"]}
        told = [f"{name} {_said(first.get(name))}" for name in ("convolution", "attention")]
        verdict = f"Of predict in {rows[0]['run']}: {', '.join(told)}."
    unknown = [
        f"{row['run']}: attention may be there in parts (a softmax before a matrix product), which "
        "types do not tell from other work: its share is unknown"
        for row in rows
        if row["layers"] is None
    ]
    doubts = [*trace_doubts(frames), *depth_doubts(frames), *unknown]
    return made(ANALYSIS, rows, verdict, doubts)


def _said(row: dict[str, Any] | None) -> str:
    if row is None:
        return in_percent(0.0)
    return "unknown" if row["layers"] is None else in_percent(row["share"])


def _rows(run: Run) -> list[dict[str, Any]]:
    ran = layers_of(run).filter(pl.col("queries") > 0)
    number = pl.lit(len(KINDS) - 1)
    for place, (_, pattern) in reversed(list(enumerate(KINDS[:-1]))):
        number = pl.when(pl.col("type").str.contains(pattern)).then(place).otherwise(number)
    of_place = ran.select("place", number.cast(pl.Int64).alias("kind"))
    rows = time_rows(run, of_place, "kind", [name for name, _ in KINDS])
    return [*rows, *_unknown(run, ran, of_place)]


def _unknown(run: Run, ran: pl.DataFrame, of_place: pl.DataFrame) -> list[dict[str, Any]]:
    """Return attention's row where it may be there in parts: a softmax before a matrix product."""
    if 0 in of_place["kind"]:
        return []
    at = {
        what: ran.filter(pl.col("type").str.contains(pattern))["place"]
        for what, pattern in (("softmax", r"(?i)softmax"), ("product", KINDS[2][1]))
    }
    if not all(len(places) for places in at.values()):
        return []
    if int(at["softmax"].min()) > int(at["product"].max()):  # type: ignore[arg-type]
        return []
    unknown = dict.fromkeys(("layers", "queries", "time", "time_low", "time_high"))
    return [{**run_cells(run.row), "kind": KINDS[0][0], **unknown, **_NO_SHARES}]


ANALYSIS = Analysis(
    name="work_kinds",
    title="Convolution, attention and other kinds of layers",
    source=(
        "XSP IV: convolution's share of a model's latency, here of every kind; kinds are told by "
        "the layers' types. Trimmed mean over queries of the kind's summed spans."
    ),
    columns=(
        *RUN_COLUMNS,
        *time_columns(
            "kind",
            "attention, convolution, matrix product, normalisation, pooling or other.",
        ),
    ),
    compute=work_kinds,
    chart=pie(("time", "Time a query (ns)"), "kind"),
)
