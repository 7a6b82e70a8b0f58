"""Kinds of work: which share convolution, attention and other kinds of layers have."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import pie
from services.analyzer.tables.kernel_sums import MOST_UNATTRIBUTED
from services.analyzer.tables.layer_frames import no_layers
from services.analyzer.tables.layer_work import (
    KERNELS,
    TIME_OF_COLUMN,
    LayerWork,
    work_doubts,
    works_of,
)
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    run_cells,
)
from services.analyzer.tables.type_sums import time_columns, time_rows

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
"""Kinds by what `_doing` says of a layer; the first that fits counts."""
_NAMES = [name for name, _ in KINDS]
_UNKNOWN = _NAMES.index("unknown")
_COMPILED = r"fusion|^custom-call"
"""XLA's types that say how a layer was compiled; the last part of its name says what it does."""
_EXP = r"(?:^|[/\"])exp(?:[\" ]|$)"
_SAID = ("convolution", "attention")
_NO_SHARES = {"share_of_layers": None, "share": None}


def work_kinds(frames: Frames) -> Table:
    """Return a row a kind of layer, most time first in a run."""
    works = works_of(frames)
    rows = [row for work in works for row in _rows(work)]
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    verdict = _verdict(first, works[0]) if rows else no_layers(frames)
    unknown = [
        f"{row['run']}: attention may be there in parts (a softmax before a matrix product), which "
        "types do not tell from other work: its share is unknown"
        for row in rows
        if row["layers"] is None
    ]
    return made(ANALYSIS, rows, verdict, [*work_doubts(frames, works), *unknown])


def _verdict(rows: list[dict[str, Any]], work: LayerWork) -> str:
    kinds = {row["kind"]: row for row in rows}
    run = rows[0]["run"]

    def told(share: str) -> str:
        return ", ".join(f"{name} {_said(kinds, name, share)}" for name in _SAID)

    if work.time_of == KERNELS:
        of_predict = f"; of predict {told('share')}" if work.predict_ns else ""
        return f"Of the kernels' time in {run}: {told('share_of_layers')}{of_predict}."
    if work.is_launched:
        return f"Of predict in {run} launching takes: {told('share')}."
    return f"Of predict in {run}: {told('share')}."


def _said(kinds: Mapping[str, dict[str, Any]], name: str, share: str) -> str:
    """Return a kind's share, no more than a bound where the kind of much is unknown."""
    row, unknown = kinds.get(name), kinds.get("unknown")
    is_much = unknown is not None and (unknown["share_of_layers"] or 0.0) > MOST_UNATTRIBUTED
    if row is None:
        return "unknown" if is_much else in_percent(0.0)
    if row["layers"] is None:
        return "unknown"
    return f"{'at least ' if is_much else ''}{in_percent(row[share])}"


def _doing() -> pl.Expr:
    """Return what tells a layer's kind: its type, of XLA's also the primitive in its name."""
    primitive = pl.col("name").str.extract(r"(?:^|/)(\w+)$").fill_null("")
    is_compiled = pl.col("type").str.contains(_COMPILED)
    both = pl.concat_str("type", primitive, separator=" ")
    return pl.when(is_compiled).then(both).otherwise("type")


def _rows(work: LayerWork) -> list[dict[str, Any]]:
    ran = work.layers.with_columns(_doing().alias("doing"))
    number = pl.lit(len(KINDS) - 1)
    for place, (_, pattern) in reversed(list(enumerate(KINDS[:-1]))):
        number = pl.when(pl.col("doing").str.contains(pattern)).then(place).otherwise(number)
    of_place = ran.select("place", number.cast(pl.Int64).alias("kind"))
    lost = pl.DataFrame({"place": [None], "kind": [_UNKNOWN]}, schema=of_place.schema)
    rows = time_rows(work, pl.concat([of_place, lost]), "kind", _NAMES)
    return [{**row, "time_of": work.time_of} for row in [*rows, *_in_parts(work, ran, of_place)]]


def _is_softmax() -> pl.Expr:
    """Say which layers are a softmax; XLA has no such, but its exp beside a greatest value."""
    made_of = pl.concat_str("name", "original", separator=" ")
    in_parts = made_of.str.contains(_EXP) & made_of.str.contains("reduce_max").any()
    return pl.col("doing").str.contains(r"(?i)softmax") | in_parts


def _in_parts(work: LayerWork, ran: pl.DataFrame, of_place: pl.DataFrame) -> list[dict[str, Any]]:
    """Return attention's row where it may be there in parts: a softmax before a matrix product."""
    if 0 in of_place["kind"]:
        return []
    products = ran.filter(pl.col("doing").str.contains(_PRODUCTS))["place"]
    softmaxes = ran.filter(_is_softmax())["place"]
    if not len(softmaxes) or not len(products):
        return []
    if int(softmaxes.min()) > int(products.max()):  # type: ignore[arg-type]
        return []
    unknown = dict.fromkeys(("layers", "queries", "time", "time_low", "time_high"))
    return [{**run_cells(work.run.row), "kind": KINDS[0][0], **unknown, **_NO_SHARES}]


ANALYSIS = Analysis(
    name="work_kinds",
    title="Convolution, attention and other kinds of layers",
    source=(
        "XSP IV: convolution's share of a model's latency, here of every kind; kinds are told by "
        "the layers' types. Trimmed mean over queries of the kind's summed kernels where these "
        "were traced, whose share is of the untraced predict, as in A15; else of its summed spans."
    ),
    columns=(
        *RUN_COLUMNS,
        *time_columns(
            "kind",
            "attention, convolution, matrix product, normalisation, pooling, other or unknown.",
        ),
        TIME_OF_COLUMN,
    ),
    compute=work_kinds,
    chart=pie(("time", "Time a query (ns)"), "kind"),
)
