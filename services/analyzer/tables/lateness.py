"""Scheduling lateness: how long after its due time each query was issued, and started.

The pacer stamps a query just before it passes it to the worker; the time for that, and the time
the query waits behind others, is in the columns `begun`.
"""

from typing import Any

from mlscope.counts import be, many
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, spreads
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    format_time,
    int_column,
    make_table,
    percentile_cells,
    run_cells,
    run_warnings,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, spaced_hz


def lateness(frames: Frames) -> Table:
    """Return a row for each open-loop run: issued minus due of every query, also failed ones."""
    rows = []
    for run in (run for run in frames.measured if run.is_open_loop):
        due = run.queries.drop_nulls("due_ns")
        late = (due["issued_ns"] - due["due_ns"]).to_numpy()
        # The issuer of a remote query does not know when the agent began.
        begun = due if run.row.pacing == "local" else due.head(0)
        waited = (begun["started_ns"] - begun["due_ns"]).to_numpy()
        cells = {
            **run_cells(run.row),
            "pacing": run.row.pacing,
            "count": len(late),
            "early": int((late < 0).sum()),
            **percentile_cells("p50", late, 0.5),
            **percentile_cells("p90", late, 0.9),
            **percentile_cells("p99", late, 0.99),
            "max": float(late.max()),
            **percentile_cells("begun_p50", waited, 0.5),
            **percentile_cells("begun_p99", waited, 0.99),
            "due_per_s": spaced_hz(due, "due_ns"),
            "issued_per_s": spaced_hz(due, "issued_ns"),
        }
        rows.append(cells)
    verdict = _verdict(rows) if rows else "No run had due times."
    caveats = [f"{row['run']}: {row['early']} issued early" for row in rows if row["early"]]
    return make_table(ANALYSIS, rows, verdict, [*run_warnings(frames), *caveats])


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Return the worst lateness, and how many queries were early."""
    worst = leader(rows, "p99")
    where = f"the worst run ({worst.row['run']})"
    if doubt := worst.doubt("which is the worst", lambda row: str(row["run"])):
        where = f"every run ({doubt})"
    early = sum(row["early"] for row in rows)
    early_text = f"{many(early, 'query')} {be(early)} early" if early else "no query is early"
    return (
        f"99% of queries were issued within {format_time(worst.row['p99'])} of their due time "
        f"in {where}; {early_text}."
    )


ANALYSIS = Analysis(
    name="lateness",
    title="Scheduling lateness",
    source="Issued minus due, both by the issuer's clock; nearest-rank percentiles.",
    columns=(
        *RUN_COLUMNS,
        text_column("pacing", "Who issues queries: local is the worker, remote the scheduler."),
        int_column("count", "Queries with a due time."),
        int_column("early", "Queries issued before their due time; should be 0."),
        *estimate_columns("p50", "Median."),
        *estimate_columns("p90", "90th percentile."),
        *estimate_columns("p99", "99th percentile."),
        float_column("max", "Maximum."),
        float_column("due_per_s", "Queries due per second.", "1/s"),
        float_column("issued_per_s", "Queries issued per second.", "1/s"),
        *estimate_columns(
            "begun_p50", "Median from due until the worker started; only for local runs."
        ),
        *estimate_columns(
            "begun_p99",
            "99th percentile of that time: issuing, waking the worker, and waiting in the queue.",
        ),
    ),
    compute=lateness,
    chart=spreads(
        ("run", "Run"),
        {
            "p50": "issued: median",
            "p90": "issued: 90th percentile",
            "p99": "issued: 99th percentile",
            "begun_p50": "started: median",
            "begun_p99": "started: 99th percentile",
        },
        Axis("", "Behind the due time", "ns"),
        "scenario",
        "pacing",
        "count",
        "early",
    ),
)
