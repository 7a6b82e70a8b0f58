"""Layer latency (A3): how a layer's time is spread over queries, in execution order."""

from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import boxes
from services.analyzer.tables.layer_frames import layers_of, no_layers, trimmed_off
from services.analyzer.tables.stacks import (
    depth_doubts,
    launch_doubts,
    launched_runs,
    layered_runs,
    stacks_beside,
)
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_percent,
    made,
    real,
    run_cells,
    text,
    trace_doubts,
    whole,
)

SHORT_NS = 1e6
"""XSP counts the layers below 1 ms."""


def layer_latency(frames: Frames) -> Table:
    """Return a row a layer that ran: its trimmed mean, and the five numbers of its box."""
    runs = list(layered_runs(frames))
    rows = [row for run in runs for row in _rows(run)]
    caveats = [*trace_doubts(frames), *depth_doubts(frames), *trimmed_off(runs)]
    caveats += launch_doubts(stacks_beside(frames))
    verdict = _verdict(rows, launched_runs(frames)) if rows else no_layers(frames)
    return made(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]], launched: set[str]) -> str:
    is_launched = rows[0]["run"] in launched
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    short = sum(row["time"] < SHORT_NS for row in first)
    total = sum(row["time"] for row in first)
    top = sorted((row["time"] for row in first), reverse=True)[:5]
    part = in_percent(sum(top) / total if total else None)
    takes = verb(short, "takes", "take")
    slowest = "the slowest takes" if len(top) == 1 else f"the slowest {len(top)} take"
    to_launch = " to launch" if is_launched else ""
    of_what = "what launching takes" if is_launched else "the layers' time"
    return (
        f"{short} of {many(len(first), 'layer')} {takes} less than 1 ms{to_launch} in "
        f"{first[0]['run']}; {slowest} {part} of {of_what}."
    )


def _rows(run: Run) -> list[dict[str, Any]]:
    found = layers_of(run).rename({"place": "index"})
    kept = [each.name for each in ANALYSIS.columns if each.name in found.columns]
    ran = found.filter(found["queries"] > 0).select(kept)
    return [{**run_cells(run.row), **row} for row in ran.to_dicts()]


ANALYSIS = Analysis(
    name="layer_latency",
    id="A3",
    title="Latency of layers (A3)",
    source=(
        "XSP A3, and MLModelScope's box plot of it: of a layer's summed spans a query. Quartiles "
        "by linear interpolation; the trimmed mean's interval by winsorised variance."
    ),
    columns=(
        *RUN_COLUMNS,
        whole("index", "Place in execution order, from 0."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        whole("queries", "Queries it served."),
        *estimate("time", "Trimmed mean of its time a query."),
        real("min", "Least."),
        real("q1", "First quartile."),
        real("median", "Median."),
        real("q3", "Third quartile."),
        real("max", "Most."),
    ),
    compute=layer_latency,
    chart=boxes(("index", "Layer"), "Time a query (ns)", "name", "type"),
)
