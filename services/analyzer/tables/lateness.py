"""Scheduling lateness: how long after its due time each query was issued, and begun.

The pacer stamps a query just before it hands it to the worker; what that takes, and what the query
waits behind others, shows in the columns `begun`.
"""

from typing import Any

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run, spaced_hz
from services.analyzer.tables.charts import percentiles
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    estimate,
    in_time,
    made,
    percentile_cells,
    real,
    run_cells,
    text,
    whole,
)


def lateness(frames: Frames) -> Table:
    """Return a row an open-loop run: issued minus due of every query, failed ones too."""
    rows = [_cells(run) for run in frames.measured if run.is_open_loop]
    verdict = "No run had due times."
    if rows:
        worst = max(rows, key=lambda row: row["p99"])
        early = sum(row["early"] for row in rows)
        verdict = (
            f"99 % of queries were issued within {in_time(worst['p99'])} of being due in the "
            f"worst run ({worst['run']}); early ones: {early}."
        )
    caveats = [f"{row['run']}: {row['early']} issued early" for row in rows if row["early"]]
    return made(ANALYSIS, rows, verdict, [*doubts(frames), *caveats])


def _cells(run: Run) -> dict[str, Any]:
    due = run.queries.drop_nulls("due_ns")
    late = (due["issued_ns"] - due["due_ns"]).to_numpy()
    # Of a remote query the issuer does not know when the agent began.
    begun = due if run.row.pacing == "local" else due.head(0)
    waited = (begun["started_ns"] - begun["due_ns"]).to_numpy()
    return {
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


ANALYSIS = Analysis(
    name="lateness",
    title="Scheduling lateness",
    source="Issued minus due, both at the issuer's clock; nearest-rank percentiles.",
    columns=(
        *RUN_COLUMNS,
        text("pacing", "Who paced: local is the worker, remote the scheduler."),
        whole("count", "Queries with a due time."),
        whole("early", "Queries issued before they were due: should be 0."),
        *estimate("p50", "Median."),
        *estimate("p90", "90th percentile."),
        *estimate("p99", "99th percentile."),
        real("max", "Most."),
        real("due_per_s", "Queries due a second.", "1/s"),
        real("issued_per_s", "Queries issued a second.", "1/s"),
        *estimate("begun_p50", "Median from due until the worker began; local runs only."),
        *estimate(
            "begun_p99",
            "99th percentile of the same: issuing, waking the worker, and waiting behind others.",
        ),
    ),
    compute=lateness,
    chart=percentiles(
        ("run", "Run"),
        {
            "p50": "issued: median",
            "p90": "issued: 90th percentile",
            "p99": "issued: 99th percentile",
            "max": "issued: most",
            "begun_p50": "begun: median",
            "begun_p99": "begun: 99th percentile",
        },
        "Behind the due time (ns)",
        "scenario",
        "pacing",
        "count",
        "early",
    ),
)
