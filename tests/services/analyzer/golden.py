"""Golden tables: `input.json` and what it must become, `table.csv`, both to be read by people.

Charts, which say the same of every table, are beside them, one a name.
`python -m tests.services.analyzer.golden [TABLE...]` writes the tables and charts of these analyses
anew, by default of all, and prints each file that it changed; then read the difference.
"""

import csv
import io
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.building.table import Analysis
from services.analyzer.frames.evaluation import Frames, Run, RunRow, Sample, ScoringContext
from services.analyzer.frames.row_schemas import (
    COUNTER_SCHEMA,
    FAILURE_SCHEMA,
    LAYER_SCHEMA,
    OUTPUT_SCHEMA,
    QUERY_SCHEMA,
    SERIES_SCHEMA,
    SPAN_SCHEMA,
    Schema,
)
from services.analyzer.tables import ANALYSES

GOLDEN = Path(__file__).parents[2] / "golden"
FOLDER, CHARTS = GOLDEN / "tables", GOLDEN / "charts"


def frames_in(value: dict[str, Any]) -> Frames:
    """Return the frames that a golden input describes; rows are lists in the schemas' order."""
    runs = tuple(_run(number, dict(each)) for number, each in enumerate(value["runs"], start=1))
    others = [RunRow(run_key=-n, **each) for n, each in enumerate(value.get("others", ()), 1)]
    return Frames(
        evaluation="e1",
        measured=runs,
        attempts=(*(run.row for run in runs), *others),
        samples=tuple(
            Sample(name, tuple(labels), *rest) for name, labels, *rest in value.get("samples", ())
        ),
        scoring_context=ScoringContext(**value.get("scoring_context", {})),
        caveats=tuple(value.get("caveats", ())),
    )


KERNELS: Schema = MappingProxyType(
    {
        "query": pl.Int32,
        "layer": pl.Int32,
        "name": pl.String,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "flops": pl.Float64,
        "dram_read_bytes": pl.Float64,
        "dram_write_bytes": pl.Float64,
        "occupancy": pl.Float64,
        "kind": pl.Int16,
        "launch_ns": pl.Int64,
        "launch": pl.Int64,
        "span": pl.Int64,
        "copy_kind": pl.String,
    }
)
"""What a golden input's `kernels` are: all work on devices, so copies and sets of memory too.

Of kernels in its spans nothing is known but their times.
"""


def with_kernels(run: Run, rows: Any) -> Run:
    """Give a run kernels with counters, as if correlation had found them."""
    filled = [[*row, *[None] * (len(KERNELS) - len(row))] for row in rows]
    frame = pl.DataFrame(filled, schema=dict(KERNELS), orient="row")
    run.__dict__["device_work"] = frame.with_columns(pl.col("kind").fill_null(2))
    return run


def _run(run_key: int, value: dict[str, Any]) -> Run:
    kernels = value.pop("kernels", None)
    sampled = [[*row, *[None] * (len(SERIES_SCHEMA) - len(row))] for row in value.pop("series", [])]
    series = pl.DataFrame(sampled, schema=dict(SERIES_SCHEMA), orient="row")
    counters = pl.DataFrame(value.pop("counters", []), schema=dict(COUNTER_SCHEMA), orient="row")
    frames = [
        _frame(run_key, value.pop(name, ()), schema)
        for name, schema in (
            ("queries", QUERY_SCHEMA),
            ("spans", SPAN_SCHEMA),
            ("layers", LAYER_SCHEMA),
            ("outputs", OUTPUT_SCHEMA),
            ("failures", FAILURE_SCHEMA),
        )
    ]
    row = RunRow(run_key=run_key, **({"queries": frames[0].height} | value))
    queries, spans, layers, outputs, failures = frames
    run = Run(row, queries, spans, layers, outputs, failures, series=series, counters=counters)
    return run if kernels is None else with_kernels(run, kernels)


def _frame(run_key: int, rows: Any, schema: Schema) -> pl.DataFrame:
    texts = [[json.dumps(c) if isinstance(c, list | dict) else c for c in row] for row in rows]
    filled = [[run_key, *row, *[None] * (len(schema) - 1 - len(row))] for row in texts]
    frame = pl.DataFrame(filled, schema=dict(schema), orient="row")
    return frame.with_columns(pl.col("kind").fill_null(0)) if "kind" in schema else frame


def as_csv(table: Table) -> str:
    """Return a table as its golden file has it; numbers with six digits that count."""
    out = io.StringIO()
    out.write(f"# {table.verdict}\n")
    for caveat in table.caveats:
        out.write(f"# caveat: {caveat}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    writer.writerows([_shown(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def made_of(folder: Path) -> str:
    """Return the CSV that a golden folder's input becomes; the folder is `NAME` or `NAME-case`."""
    frames = frames_in(json.loads((folder / "input.json").read_text()))
    (analysis,) = analyses_called([folder.name.partition("-")[0]])
    return as_csv(analysis.compute(frames))


def analyses_called(names: Collection[str]) -> list[Analysis]:
    """Return the analyses of these names; exit with a message that names what none is called."""
    every = [analysis.name for analysis in ANALYSES]
    if unknown := sorted({*names} - {*every}):
        sys.exit(f"no analysis is called {', '.join(unknown)}; they are {', '.join(every)}")
    return [analysis for analysis in ANALYSES if analysis.name in names]


def chart_text(analysis: Analysis) -> str:
    """Return an analysis' chart as its golden file has it."""
    return json.dumps(analysis.chart, indent=1) + "\n"


def write_golden(names: Collection[str]) -> Iterator[Path]:
    """Write the charts and tables of the analyses of these names; yield the files that changed."""
    charts = {
        CHARTS / f"{analysis.name}.json": chart_text(analysis)
        for analysis in ANALYSES
        if analysis.chart and analysis.name in names
    }
    tables = {
        folder / "table.csv": made_of(folder)
        for folder in sorted(FOLDER.iterdir())
        if folder.name.partition("-")[0] in names
    }
    for path, text in (charts | tables).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            yield path


def main(names: Sequence[str]) -> None:
    """Write the golden files of these analyses, of all without names, and print what changed."""
    analyses = analyses_called(names) if names else ANALYSES
    for path in write_golden([analysis.name for analysis in analyses]):
        sys.stdout.write(f"{path.relative_to(GOLDEN.parents[1])}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
