"""Host counters: events of the kernel and of the processor, a row for each run and event.

The counts of perf_event_open(2) over a run's blocks (instructions, cycles, cache misses where the
machine has them; faults, switches, migrations and task clock everywhere), and getrusage's totals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import polars as pl

from mlscope.counts import many
from mlscope.quantities import number
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.building.charts import Axis, spreads, with_transforms
from services.analyzer.building.level_differences import UNTIMED
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    counter_warnings,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    run_cells,
    share,
    text_column,
    with_interval,
)
from services.analyzer.frames.evaluation import Frames, Run

SAMPLED = ("resource.rss", "resource.cpu")
"""Series of `resource` that are not totals of a block."""
RATIOS: Mapping[str, str] = MappingProxyType(
    {
        "instructions": "cycles",
        "cache-misses": "cache-references",
        "branch-misses": "branch-instructions",
    }
)
"""The event that divides an event where both were counted: IPC, and the shares of misses."""
_IN_VERDICT = ("instructions", "page-faults", "context-switches", "cpu-migrations")

_Cells = dict[str, Any]


_CHART = with_transforms(
    spreads(
        ("event", "Event"),
        {"per_query": "per query"},
        Axis("", "Events per query, of those above 0"),
        "unit",
        "ratio",
        "over",
        facet="run",
        is_logarithmic=True,
    ),
    {"filter": "datum.per_query > 0"},
)


def host_counters(frames: Frames) -> Table:
    """Return a row for each run and event, in the order of the names."""
    rows: list[_Cells] = []
    notes = counter_warnings(frames)
    for run in frames.measured:
        of_run = list(_event_rows(run))
        rows += of_run
        name = run.row.run
        has_cycles = any(row["event"] == "cycles" for row in of_run)
        if of_run and run.row.level >= Level.HARDWARE and not has_cycles:
            notes.append(f"{name}: its processor has no hardware counters: no cycles, so no IPC")
        notes += [
            f"{name}: {row['event']}: counted for only {format_share(row['counted'])} of the time "
            "of a block, and scaled"
            for row in of_run
            if row["counted"] < 1.0
        ]
        if of_run and run.failed:
            failed = many(run.failed, "failed query")
            notes.append(f"{name}: its counters include those of {failed}")
    return make_table(ANALYSIS, rows, _verdict(rows), notes)


def _verdict(rows: Sequence[_Cells]) -> str:
    perf = [row for row in rows if row["source"] == "perf"]
    if not perf:
        return "No run has counts from perf (collector perf, from level system on)."
    # A run with the processor's own counters has more to report.
    first = next((row for row in perf if row["event"] == _IN_VERDICT[0]), perf[0])
    by_event = {row["event"]: row for row in perf if row["run"] == first["run"]}
    counts = [f"{number(by_event[n]['per_query'])} {n}" for n in _IN_VERDICT if n in by_event]
    ratio = by_event.get(_IN_VERDICT[0], {}).get("ratio")
    cycle = f" at {ratio:.3g} instructions per cycle" if ratio is not None else ""
    events = ", ".join(counts) or many(len(by_event), "event")
    return f"A query of {first['run']} (batch {first['batch_size']}) takes {events}{cycle}."


def _event_rows(run: Run) -> Iterator[_Cells]:
    """Yield a row for each event; a run without queries has none."""
    blocks = run.queries.group_by("block", maintain_order=True).agg(
        pl.len().alias("queries"),
        (pl.col("ended_ns").max() - pl.col("issued_ns").min()).alias("ns"),
    )
    is_perf = pl.col("name").str.starts_with("perf.")
    is_total = pl.col("name").str.starts_with("resource.") & ~pl.col("name").is_in(SAMPLED)
    values = run.series.filter(is_perf | is_total).join(blocks, on="block")
    sums = dict(values.group_by("name", maintain_order=True).agg(pl.col("value").sum()).iter_rows())
    is_timed = run.row.variant not in UNTIMED
    by_event = values.sort("name", "block").group_by("name", maintain_order=True)
    for (name,), of_event in by_event:
        source, _, event = str(name).partition(".")
        per_query = (of_event["value"] / of_event["queries"]).to_numpy()
        interval = blocks_interval(per_query)
        if interval.low is not None:
            # No count is below 0, though the interval's formula may be.
            interval = replace(interval, low=max(interval.low, 0.0))
        divisor = RATIOS.get(event, "")
        ratio = share(sums[name], sums.get(f"{source}.{divisor}"))
        per_second = share(sums[name], float(of_event["ns"].sum()) * 1e-9)
        yield {
            **run_cells(run.row),
            "agent": run.row.agent,
            "variant": run.row.variant,
            "event": event,
            "source": source,
            "unit": of_event["unit"][0],
            "blocks": of_event.height,
            "queries": int(of_event["queries"].sum()),
            **with_interval("per_query", float(per_query.mean()), interval),
            "counted": float(of_event["counted_share"].fill_null(1.0).min()),  # type: ignore[arg-type]
            "per_second": per_second if is_timed else None,
            "ratio": ratio,
            "over": divisor if ratio is not None else "",
        }


ANALYSIS = Analysis(
    name="host_counters",
    title="Counters of the host",
    source=(
        "perf_event_open(2) over all threads of the process, and getrusage(2), from the start to "
        "the end of each block, including tracing and the preparation of samples, unless processes "
        "of their own prepare them. Mean over blocks of a block's count per query, Student's t "
        "over blocks."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column(
            "variant", "Variant of the process: serialised, counters, cold; empty for a plain one."
        ),
        text_column("event", "The event, named as in perf list or getrusage(2)."),
        text_column("source", "The collector: perf or resource."),
        text_column("unit", "Unit of the counts: 1, ns, s or By."),
        int_column("blocks", "Blocks measured."),
        int_column("queries", "Queries of these blocks, including failed ones."),
        *estimate_columns("per_query", "Mean count per query, in its unit.", "1"),
        float_column(
            "per_second",
            "Count per second of these blocks; null for replays and cold starts.",
            "1/s",
        ),
        float_column(
            "counted",
            "Minimum share of a block in which it was counted; below 1 where multiplexed.",
            "1",
        ),
        float_column(
            "ratio",
            "Count divided by that of `over` in the same blocks; IPC for instructions.",
            "1",
        ),
        text_column(
            "over",
            "Divisor of the ratio: cycles, cache-references, branch-instructions; '' for none.",
        ),
    ),
    compute=host_counters,
    chart=_CHART,
)
