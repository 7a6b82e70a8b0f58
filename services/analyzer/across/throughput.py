"""Throughput over batch sizes, an evaluation and agent a line."""

from collections.abc import Sequence

from mlscope.client.quantities import number
from schemas.analysis import Table
from services.analyzer.across.source import PLACE_COLUMNS, Comparison, Source, Terms, rates
from services.analyzer.tables.charts import lines
from services.analyzer.tables.table import estimate, made, text, truth


def throughput(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row an evaluation, agent and batch size."""
    names = [column.name for column in COMPARISON.columns]
    rows = [{name: row[name] for name in names} for each in sources for row in rates(each)]
    verdict = "No evaluation measured throughput in a closed loop."
    if rows:
        best = max(rows, key=lambda row: row["samples_per_s"])
        verdict = (
            f"Most samples a second: {number(best['samples_per_s'])} of {best['evaluation']} on "
            f"{best['agent']} at batch {best['batch_size']}."
        )
    return made(COMPARISON, rows, verdict)


COMPARISON = Comparison(
    name="throughput_by_batch",
    title="Throughput over batch sizes",
    source="XSP's throughput curves: of each evaluation's model table (A1).",
    columns=(
        *PLACE_COLUMNS,
        text("scenario", "How queries arrived."),
        text("run", "The run."),
        *estimate("samples_per_s", "Samples answered a second.", "1/s"),
        *estimate("latency", "Trimmed mean latency of a query."),
        truth("is_optimal", "Whether it is the optimal batch size of its evaluation."),
    ),
    compute=throughput,
    chart=lines(
        ("batch_size", "Batch size"),
        ("samples_per_s", "Samples a second"),
        *("evaluation", "agent", "model"),
    ),
)
