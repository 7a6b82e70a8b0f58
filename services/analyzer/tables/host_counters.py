"""Host counters: events of the kernel and of the processor, a row a run and event.

What perf_event_open(2) counted over a run's blocks (instructions, cycles, cache misses where the
machine has them; faults, switches, migrations and task clock everywhere), and getrusage's totals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import polars as pl

from mlscope.client.quantities import number
from mlscope.counts import many
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import Chart, bars
from services.analyzer.tables.levels import UNTIMED
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_percent,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    whole,
    with_interval,
)

SAMPLED = ("resource.rss", "resource.cpu")
"""Series of `resource` that are no totals of a block."""
RATIOS: Mapping[str, str] = MappingProxyType(
    {
        "instructions": "cycles",
        "cache-misses": "cache-references",
        "branch-misses": "branch-instructions",
    }
)
"""What an event is set against where both were counted: IPC, and the shares of misses."""
_SAID = ("instructions", "page-faults", "context-switches", "cpu-migrations")

_Cells = dict[str, Any]


def host_counters(frames: Frames) -> Table:
    """Return a row a run and event, in the order of the names."""
    rows = [row for run in frames.measured for row in _rows(run)]
    notes = [*trace_doubts(frames), *_notes(frames, rows)]
    return made(ANALYSIS, rows, _verdict(rows), notes)


def _verdict(rows: Sequence[_Cells]) -> str:
    perf = [row for row in rows if row["source"] == "perf"]
    if not perf:
        return "No run was counted by perf (the collector perf, from level system on)."
    # Where the processor's own were counted, that run tells more.
    telling = next((row for row in perf if row["event"] == _SAID[0]), perf[0])
    found = {row["event"]: row for row in perf if row["run"] == telling["run"]}
    told = [f"{number(found[n]['per_query'])} {n}" for n in _SAID if n in found]
    ratio = found.get(_SAID[0], {}).get("ratio")
    cycle = f" at {ratio:.3g} instructions a cycle" if ratio is not None else ""
    what = ", ".join(told) or many(len(found), "event")
    return f"A query of {telling['run']} (batch {telling['batch_size']}) takes {what}{cycle}."


def _notes(frames: Frames, rows: Sequence[_Cells]) -> Iterator[str]:
    counted = {(row["run"], row["event"]) for row in rows}
    for run in frames.measured:
        name = run.row.run
        is_counted = any(each == name for each, _ in counted)
        if is_counted and run.row.level >= Level.HARDWARE and (name, "cycles") not in counted:
            yield f"{name}: its processor's counters are not there: no cycles, so no IPC"
        for row in (each for each in rows if each["run"] == name and each["counted"] < 1.0):
            seen = in_percent(row["counted"])
            yield f"{name}: {row['event']}: counted for {seen} of the time at least, and scaled"
        if is_counted and run.failed:
            yield f"{name}: its counters hold what its {many(run.failed, 'failed query')} took"


def _rows(run: Run) -> Iterator[_Cells]:
    """Yield a row an event; nothing is said of a run without queries."""
    blocks = run.queries.group_by("block").agg(
        pl.len().alias("queries"),
        (pl.col("ended_ns").max() - pl.col("issued_ns").min()).alias("ns"),
    )
    is_perf = pl.col("name").str.starts_with("perf.")
    is_total = pl.col("name").str.starts_with("resource.") & ~pl.col("name").is_in(SAMPLED)
    values = run.series.filter(is_perf | is_total).join(blocks, on="block")
    sums = dict(values.group_by("name").agg(pl.col("value").sum()).iter_rows())
    for (name,), part in values.sort("name", "block").group_by("name", maintain_order=True):
        yield _row(run, str(name), part, sums)


def _row(run: Run, name: str, part: pl.DataFrame, sums: Mapping[str, float]) -> _Cells:
    """Return an event's row; `part` has a value, queries and ns a block."""
    source, _, event = name.partition(".")
    each = (part["value"] / part["queries"]).to_numpy()
    interval = blocks_interval(each)
    if interval.low is not None:
        # No count is below 0, wherever the interval's formula ends.
        interval = replace(interval, low=max(interval.low, 0.0))
    is_timed = run.row.variant not in UNTIMED
    over = RATIOS.get(event, "")
    ratio = share(sums[name], sums.get(f"{source}.{over}"))
    return {
        **run_cells(run.row),
        "agent": run.row.agent,
        "variant": run.row.variant,
        "event": event,
        "source": source,
        "unit": part["unit"][0],
        "blocks": part.height,
        "queries": int(part["queries"].sum()),
        **with_interval("per_query", float(each.mean()), interval),
        "counted": float(part["counted_share"].fill_null(1.0).min()),  # type: ignore[arg-type]
        "per_second": share(sums[name], float(part["ns"].sum()) * 1e-9) if is_timed else None,
        "ratio": ratio,
        "over": over if ratio is not None else "",
    }


def _chart() -> Chart:
    chart = bars(("event", "Event"), ("per_query", "Events a query"), "unit", "ratio", "over")
    chart["encoding"]["y"]["scale"] = {"type": "symlog"}
    return chart


ANALYSIS = Analysis(
    name="host_counters",
    title="Counters of the host",
    source=(
        "perf_event_open(2) over all threads of the process, and getrusage(2), from the begin of "
        "each block to its end: preparing samples and tracing are in it. Mean over blocks of what "
        "a block counted a query of it, Student's t over blocks."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        text("variant", "What was special about the process: serialised, counters, cold, nothing."),
        text("event", "What was counted, as perf list or getrusage(2) name it."),
        text("source", "The collector: perf or resource."),
        text("unit", "What the counts are in: 1, ns, s or By."),
        whole("blocks", "Blocks it is over."),
        whole("queries", "Queries of these blocks, failed ones among them."),
        *estimate("per_query", "Mean count a query, in its unit.", "1"),
        real("per_second", "Count a second of these blocks; null of replays and openings.", "1/s"),
        real(
            "counted",
            "Least share of a block in which it counted; below 1 counters took turns.",
            "1",
        ),
        real("ratio", "Count over that of `over` in the same blocks: of instructions IPC.", "1"),
        text(
            "over", "What the ratio is to: cycles, cache-references, branch-instructions, nothing."
        ),
    ),
    compute=host_counters,
    chart=_chart(),
)
