"""Throughput over batch sizes, one line for each evaluation and agent."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, curves
from services.analyzer.building.table import bool_column, estimate_columns, make_table, text_column
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    PLACE_DETAILS,
    Cells,
    Comparison,
    Source,
    Terms,
    preparation_notes,
    rates,
)


def throughput(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size."""
    names = [column.name for column in COMPARISON.columns]
    rows = [{name: row[name] for name in names} for row in rates(sources)]
    verdict = "No evaluation measured throughput in a closed loop."
    if rows:
        fastest = leader(rows, "samples_per_s")

        def rate_of(row: Cells) -> str:
            return (
                f"{estimate_text(row, 'samples_per_s', 'samples/s')} of "
                f"{row['evaluation']} on {row['agent']} at batch {row['batch_size']}"
            )

        doubt = fastest.doubt("which throughput is the highest", rate_of, PLACE_DETAILS)
        verdict = f"Highest throughput: {rate_of(fastest.row)}."
        if doubt:
            verdict = f"{capitalised(doubt)}."
    return make_table(COMPARISON, rows, verdict, preparation_notes(sources))


COMPARISON = Comparison(
    name="throughput_by_batch",
    title="Throughput over batch sizes",
    source="XSP's throughput curves, from each evaluation's model table (A1).",
    columns=(
        *PLACE_COLUMNS,
        text_column("scenario", "The scenario: how queries arrived."),
        text_column("parameters", "The scenario's parameters as JSON."),
        text_column("run", "Name of the run."),
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
        *estimate_columns("latency", "Trimmed mean latency of queries."),
        bool_column("is_optimal", "Whether this is the optimal batch size of its evaluation."),
    ),
    compute=throughput,
    chart=curves(
        ("batch_size", "Batch size"),
        Axis("samples_per_s", "Samples per second"),
        "evaluation",
        "agent",
        "model",
        has_interval=True,
    ),
)
