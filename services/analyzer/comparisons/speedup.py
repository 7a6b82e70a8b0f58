"""Speed-up over batch sizes: throughput over that of the smallest batch, as a heat map."""

from collections import defaultdict
from collections.abc import Sequence

from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.charts import heat
from services.analyzer.building.table import (
    float_column,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    rates,
    subject_of,
)


def speedup(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size; the smallest batch has speed-up 1."""
    groups: dict[tuple[str, str, str], list[Cells]] = defaultdict(list)
    for rate in rates(sources):
        groups[rate["evaluation"], rate["agent"], rate["scenario"]].append(rate)
    rows = []
    for group in groups.values():
        base = min(group, key=lambda rate: int(rate["batch_size"]))
        for rate in group:
            cells = {name: rate[name] for name in _RATE_NAMES}
            ratio = share(rate["samples_per_s"], base["samples_per_s"])
            rows.append({**cells, "base_batch_size": base["batch_size"], "speedup": ratio})
    verdict = "No evaluation measured two batch sizes."
    larger = [row for row in rows if row["batch_size"] != row["base_batch_size"]]
    if larger:
        best = max(larger, key=lambda row: row["speedup"])
        system = f"{subject_of(best)} on {best['agent']}"
        gain = (
            f"batch {best['batch_size']} has {number(best['speedup'], 3)} times the throughput of "
            f"batch {best['base_batch_size']}"
        )
        if best["speedup"] > 1:
            verdict = f"{system} gains the most: {gain}."
        else:
            verdict = f"Larger batches gain nothing; {system} loses the least: {gain}."
    return make_table(COMPARISON, rows, verdict)


_COLUMNS = (
    *PLACE_COLUMNS,
    text_column("scenario", "The scenario: how queries arrived."),
    text_column("run", "Name of the run."),
    float_column("samples_per_s", "Samples answered per second.", "1/s"),
)
_RATE_NAMES = tuple(column.name for column in _COLUMNS)

COMPARISON = Comparison(
    name="speedup",
    title="Speed-up over batch sizes",
    source="XSP's first version, Figure 12: throughput relative to the smallest measured batch.",
    columns=(
        *_COLUMNS,
        int_column("base_batch_size", "The smallest measured batch size."),
        float_column("speedup", "Throughput relative to the smallest batch size.", "1"),
    ),
    compute=speedup,
    chart=heat(("batch_size", "Batch size"), ("evaluation", "Evaluation"), ("speedup", "Speed-up")),
)
