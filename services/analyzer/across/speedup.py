"""Speed-up over batch sizes: throughput against that of the smallest batch, as a heat map."""

from collections import defaultdict
from collections.abc import Sequence

from mlscope.client.quantities import number
from schemas.analysis import Table
from services.analyzer.across.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    rates,
)
from services.analyzer.tables.charts import heat
from services.analyzer.tables.table import made, real, share, text, whole


def speedup(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row an evaluation, agent and batch size; the smallest batch has 1."""
    rows = [row for each in sources for row in _rows(each)]
    verdict = "No evaluation measured two batch sizes."
    told = [row for row in rows if row["batch_size"] != row["base_batch_size"]]
    if told:
        best = max(told, key=lambda row: row["speedup"])
        where = f"{best['model'] or best['evaluation']} on {best['agent']}"
        found = (
            f"at batch {best['batch_size']} {number(best['speedup'], 3)} times the throughput of "
            f"batch {best['base_batch_size']}"
        )
        if best["speedup"] > 1:
            verdict = f"{where} gains most: {found}."
        else:
            verdict = f"Larger batches gain nothing; {where} loses least: {found}."
    return made(COMPARISON, rows, verdict)


def _rows(source: Source) -> list[Cells]:
    groups: dict[tuple[str, str], list[Cells]] = defaultdict(list)
    for row in rates(source):
        groups[row["agent"], row["scenario"]].append(row)
    found = []
    for group in groups.values():
        base = min(group, key=lambda row: int(row["batch_size"]))
        for row in group:
            cells = {name: row[name] for name in _KEPT}
            gain = share(row["samples_per_s"], base["samples_per_s"])
            found.append({**cells, "base_batch_size": base["batch_size"], "speedup": gain})
    return found


_COLUMNS = (
    *PLACE_COLUMNS,
    text("scenario", "How queries arrived."),
    text("run", "The run."),
    real("samples_per_s", "Samples answered a second.", "1/s"),
)
_KEPT = tuple(column.name for column in _COLUMNS)

COMPARISON = Comparison(
    name="speedup",
    title="Speed-up over batch sizes",
    source="XSP's first version, Figure 12: throughput over that of the smallest batch measured.",
    columns=(
        *_COLUMNS,
        whole("base_batch_size", "The smallest batch size measured."),
        real("speedup", "Throughput over that of the smallest batch size.", "1"),
    ),
    compute=speedup,
    chart=heat(("batch_size", "Batch size"), ("evaluation", "Evaluation"), ("speedup", "Speed-up")),
)
