"""Throughput over batch sizes, one line for each evaluation and agent."""

from collections.abc import Sequence

from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.charts import lines
from services.analyzer.building.table import bool_column, estimate_columns, make_table, text_column
from services.analyzer.comparisons.source import PLACE_COLUMNS, Comparison, Source, Terms, rates


def throughput(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size."""
    names = [column.name for column in COMPARISON.columns]
    rows = [{name: row[name] for name in names} for row in rates(sources)]
    verdict = "No evaluation measured throughput in a closed loop."
    if rows:
        best = max(rows, key=lambda row: row["samples_per_s"])
        verdict = (
            f"Highest throughput: {number(best['samples_per_s'])} samples per second of "
            f"{best['evaluation']} on {best['agent']} at batch {best['batch_size']}."
        )
    return make_table(COMPARISON, rows, verdict)


COMPARISON = Comparison(
    name="throughput_by_batch",
    title="Throughput over batch sizes",
    source="XSP's throughput curves, from each evaluation's model table (A1).",
    columns=(
        *PLACE_COLUMNS,
        text_column("scenario", "The scenario: how queries arrived."),
        text_column("run", "Name of the run."),
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
        *estimate_columns("latency", "Trimmed mean latency of queries."),
        bool_column("is_optimal", "Whether this is the optimal batch size of its evaluation."),
    ),
    compute=throughput,
    chart=lines(
        ("batch_size", "Batch size"),
        ("samples_per_s", "Samples per second"),
        "evaluation",
        "agent",
        "model",
    ),
)
