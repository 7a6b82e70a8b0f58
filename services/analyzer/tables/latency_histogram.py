"""How latencies are spread: the queries of each run by bucket, and the slowest of each bucket."""

from typing import Any

import numpy as np

from mlscope.counts import many
from mlscope.statistics.latency_buckets import bounds_ns, buckets_of
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, histogram
from services.analyzer.building.rates import is_for_counters
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    float_column,
    format_time,
    int_column,
    make_table,
    run_cells,
    run_warnings,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.tables.latency import ONLY_COUNTERS


def latency_histogram(frames: Frames) -> Table:
    """Return a row for each run and bucket of latency that has answered queries."""
    runs = [run for run in frames.measured if run.answered.height and not is_for_counters(run)]
    rows = [row for run in runs for row in _bars(run)]
    return make_table(ANALYSIS, rows, _verdict(frames, rows), run_warnings(frames))


def _bars(run: Run) -> list[dict[str, Any]]:
    """Return the rows of a run, from the fastest bucket to the slowest."""
    latencies, queries = run.latency_ns, run.answered["query"].to_numpy()
    # Of equally slow queries the first comes last.
    slowest_last = np.lexsort((-queries, latencies))
    buckets = buckets_of(latencies[slowest_last])
    # Latencies are sorted, and so are their buckets: where one ends, its slowest query stands.
    ends = np.flatnonzero(np.diff(buckets, append=buckets[-1] + 1))
    rows, before = [], 0
    for end in ends:
        place, bucket = slowest_last[end], int(buckets[end])
        begins_ns, ends_ns = bounds_ns(bucket)
        rows.append(
            {
                **run_cells(run.row),
                "agent": run.row.agent,
                "bucket": bucket,
                "begins": begins_ns,
                "ends": ends_ns,
                "count": int(end) + 1 - before,
                "cumulative_share": (int(end) + 1) / len(latencies),
                "slowest": float(latencies[place]),
                "slowest_query": int(queries[place]),
            }
        )
        before = int(end) + 1
    return rows


def _verdict(frames: Frames, rows: list[dict[str, Any]]) -> str:
    if not rows:
        has_answers = any(run.answered.height for run in frames.measured)
        return ONLY_COUNTERS if has_answers else "No query was answered."
    slowest = max(rows, key=lambda row: row["slowest"])
    fullest = max((row for row in rows if row["run"] == slowest["run"]), key=lambda r: r["count"])
    return (
        f"The slowest query is query {slowest['slowest_query']} of {slowest['run']}: "
        f"{format_time(slowest['slowest'])}. The most common latency in this run "
        f"was {format_time(fullest['begins'])} to {format_time(fullest['ends'])} "
        f"({many(fullest['count'], 'query')})."
    )


ANALYSIS = Analysis(
    name="latency_histogram",
    title="Distribution of latency",
    source=(
        "Histogram of the latencies of answered queries, and their empirical distribution "
        "function. Buckets have ends of equal ratio, eight to a doubling, as in the live figures."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        int_column("bucket", "Number of the bucket: n begins at 2 ** (n / 8) ns."),
        float_column("begins", "Where the bucket begins."),
        float_column("ends", "Where the bucket ends."),
        int_column("count", "Answered queries in the bucket; buckets without any have no row."),
        float_column(
            "cumulative_share",
            "Share of the run's answered queries in this bucket and those before.",
            "1",
        ),
        float_column("slowest", "Latency of the slowest query in the bucket."),
        int_column("slowest_query", "Number of that query; its trace has it under this number."),
    ),
    compute=latency_histogram,
    chart=histogram(
        ("begins", "ends"), Axis("count", "Queries"), "Latency", "cumulative_share", "slowest_query"
    ),
)
