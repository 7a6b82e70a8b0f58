"""Kinds of work: the share of convolution, attention and other kinds of layers."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.kernel_sums import MOST_UNATTRIBUTED
from services.analyzer.building.layer_work import (
    KERNELS,
    TIME_OF_COLUMN,
    LayerWork,
    work_warnings,
    works_of,
)
from services.analyzer.building.table import (
    LEAST_SHARE,
    RUN_COLUMNS,
    Analysis,
    format_share,
    make_table,
    of_first_run,
    run_cells,
)
from services.analyzer.building.type_sums import time_columns, time_rows
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import no_layers

_PRODUCTS = (
    r"(?i)gemm|matmul|linear|dense|fullyconnected|inner_?product|einsum|^fc$|"
    r"^dot\b|dot_general|\b(add|b|baddb)?mm$"
)
KINDS = (
    ("attention", r"(?i)attention|sdpa|mha\b"),
    ("convolution", r"(?i)conv(e?r?$|[^e]|e[^r]|er[^t])"),
    ("matrix product", _PRODUCTS),
    ("normalisation", r"(?i)norm"),
    ("pooling", r"(?i)pool|reduce[_-]window"),
    ("unknown", r"^\s*$"),
    ("other", r""),
)
"""Kinds with patterns of a layer's type and primitive; the first that matches counts."""
_NAMES = [name for name, _ in KINDS]
_UNKNOWN = _NAMES.index("unknown")
_COMPILED = r"fusion|^custom-call"
"""XLA's types that only say how a layer was compiled; its name ends with the primitive."""
_EXP = r"(?:^|[/\"])exp(?:[\" ]|$)"
_IN_VERDICT = ("convolution", "attention")
_NO_SHARES = {"share_of_layers": None, "share": None}


def work_kinds(frames: Frames) -> Table:
    """Return a row for each run and kind of layers, longest time first in a run."""
    works = works_of(frames)
    rows = [row for work in works for row in _kind_rows(work)]
    verdict = _verdict(of_first_run(rows), works[0]) if rows else no_layers(frames)
    unknown = [
        f"{row['run']}: attention may exist in parts (a softmax before a matrix product), which "
        "layer types do not identify: its share is unknown"
        for row in rows
        if row["layers"] is None
    ]
    return make_table(ANALYSIS, rows, verdict, [*work_warnings(frames, works), *unknown])


def _verdict(rows: list[dict[str, Any]], work: LayerWork) -> str:
    kinds = {row["kind"]: row for row in rows}
    run = rows[0]["run"]
    unknown = kinds.get("unknown")
    is_bound = unknown is not None and (unknown["share_of_layers"] or 0.0) > MOST_UNATTRIBUTED

    def share_of(kind: str, column: str) -> str:
        """Return the share of a kind, a lower bound where much time is of unknown kind."""
        row = kinds.get(kind)
        if row is None:
            return "unknown" if is_bound else format_share(0.0)
        if row["layers"] is None or (is_bound and (row[column] or 0.0) < LEAST_SHARE):
            return "unknown"
        return f"{'at least ' if is_bound else ''}{format_share(row[column])}"

    def shares(column: str) -> str:
        return ", ".join(f"{kind} {share_of(kind, column)}" for kind in _IN_VERDICT)

    if work.time_of == KERNELS:
        of_predict = f"; of predict: {shares('share')}" if work.predict_ns else ""
        return f"Of the kernel time in {run}: {shares('share_of_layers')}{of_predict}."
    if work.is_launched:
        return f"Of predict in {run}, time to launch: {shares('share')}."
    return f"Of predict in {run}: {shares('share')}."


def _kind_rows(work: LayerWork) -> list[dict[str, Any]]:
    """Return a row for each of `KINDS` among the layers of one run, longest time first.

    Attention that may exist in parts has a row without time.
    """
    # The type of a layer; for XLA also the primitive in its name.
    primitive = pl.col("name").str.extract(r"(?:^|/)(\w+)$").fill_null("")
    both = pl.concat_str("type", primitive, separator=" ")
    is_compiled = pl.col("type").str.contains(_COMPILED)
    operation = pl.when(is_compiled).then(both).otherwise("type").alias("operation")
    layers = work.layers.with_columns(operation)
    number = pl.lit(len(KINDS) - 1)
    for place, (_, pattern) in reversed(list(enumerate(KINDS[:-1]))):
        number = pl.when(pl.col("operation").str.contains(pattern)).then(place).otherwise(number)
    of_place = layers.select("place", number.cast(pl.Int64).alias("kind"))
    no_layer = pl.DataFrame({"place": [None], "kind": [_UNKNOWN]}, schema=of_place.schema)
    rows = time_rows(work, pl.concat([of_place, no_layer]), "kind", _NAMES)
    if 0 not in of_place["kind"] and _may_have_attention(layers):
        unknown = dict.fromkeys(("layers", "queries", "time", "time_low", "time_high"))
        attention = {"kind": KINDS[0][0], **unknown, **_NO_SHARES}
        rows.append({**run_cells(work.run.row), **attention})
    return [{**row, "time_of": work.time_of} for row in rows]


def _may_have_attention(layers: pl.DataFrame) -> bool:
    """Return whether attention may exist in parts: a softmax before a matrix product.

    XLA has no softmax, but an exp beside a reduce_max.
    """
    sources = pl.concat_str("name", "original", separator=" ")
    in_parts = sources.str.contains(_EXP) & sources.str.contains("reduce_max").any()
    is_softmax = pl.col("operation").str.contains(r"(?i)softmax") | in_parts
    products = layers.filter(pl.col("operation").str.contains(_PRODUCTS))["place"]
    softmaxes = layers.filter(is_softmax)["place"]
    if not len(softmaxes) or not len(products):
        return False
    return int(softmaxes.min()) <= int(products.max())  # type: ignore[arg-type]


ANALYSIS = Analysis(
    name="work_kinds",
    title="Convolution, attention and other kinds of layers",
    source=(
        "XSP IV: convolution's share of a model's latency, here for every kind, by the layers' "
        "types. Trimmed mean over queries of the kind's summed kernel time where kernels were "
        "traced, with its share of the untraced predict as in A15; else of its summed spans."
    ),
    columns=(
        *RUN_COLUMNS,
        *time_columns(
            "kind",
            "Kind of layers: attention, convolution, matrix product, normalisation, pooling, "
            "other or unknown.",
        ),
        TIME_OF_COLUMN,
    ),
    compute=work_kinds,
    chart=ranked(
        ("kind", "Kind"), Axis("time", "Time per query", "ns"), "layers", "share", color="kind"
    ),
)
