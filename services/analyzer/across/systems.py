"""A model across systems and frameworks, normalised to the first evaluation."""

from collections import defaultdict
from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.across.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    rates,
)
from services.analyzer.tables.charts import bars
from services.analyzer.tables.table import estimate, made, real, share, text, truth, whole


def systems(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row an evaluation and agent: online latency, best throughput, and both relative."""
    rows = [row for each in sources for row in _rows(each)]
    if not rows:
        return made(COMPARISON, [], "No evaluation measured latency in a closed loop.")
    base = rows[0]
    told = [
        {
            **row,
            "relative_latency": share(row["latency"], base["latency"]),
            "relative_throughput": share(row["samples_per_s"], base["samples_per_s"]),
            "is_base": row is base,
        }
        for row in rows
    ]
    fastest = min(told, key=lambda row: row["latency"])
    most = max(told, key=lambda row: row["samples_per_s"])
    verdict = (
        f"Least latency on {_named(fastest)}, {fastest['relative_latency']:.3g} times that of "
        f"{_named(base)}; most throughput on {_named(most)}, {most['relative_throughput']:.3g} "
        "times."
    )
    return made(COMPARISON, told, verdict, _unlike(rows))


def _named(row: Cells) -> str:
    return f"{row['agent']} ({row['framework'] or row['evaluation']})"


def _unlike(rows: Sequence[Cells]) -> list[str]:
    models = sorted({row["model"].rpartition(":")[0] or row["model"] for row in rows})
    sizes = sorted({row["batch_size"] for row in rows})
    notes = [f"models differ: {', '.join(models)}"] if len(models) > 1 else []
    if len(sizes) > 1:
        notes.append(f"latencies are of batch sizes {', '.join(map(str, sizes))}: of a query each")
    return notes


def _rows(source: Source) -> list[Cells]:
    groups: dict[str, list[Cells]] = defaultdict(list)
    for row in rates(source):
        groups[row["agent"]].append(row)
    found = []
    for group in groups.values():
        online = min(group, key=lambda row: int(row["batch_size"]))
        best = max(group, key=lambda row: float(row["samples_per_s"]))
        optimal = next((row for row in group if row["is_optimal"]), best)
        rate = {n: best[n] for n in ("samples_per_s", "samples_per_s_low", "samples_per_s_high")}
        kept = ("run", "queries", "latency", "latency_low", "latency_high")
        place = [column.name for column in PLACE_COLUMNS]
        sizes = {"best_batch_size": best["batch_size"], "optimal_batch": optimal["batch_size"]}
        found.append({**{n: online[n] for n in (*place, *kept)}, **rate, **sizes})
    return found


COMPARISON = Comparison(
    name="systems",
    title="Across systems and frameworks",
    source=(
        "XSP Table X and Figures 10 to 13: latency of the smallest batch size and the most "
        "throughput, each over that of the first evaluation named."
    ),
    columns=(
        *PLACE_COLUMNS,
        text("run", "The run of the smallest batch size."),
        whole("queries", "Queries it answered."),
        *estimate("latency", "Its trimmed mean latency of a query."),
        *estimate("samples_per_s", "The most samples a second.", "1/s"),
        whole("best_batch_size", "At which batch size."),
        whole("optimal_batch", "The optimal batch size, by the rule of 5 %."),
        real("relative_latency", "Latency over the first one's.", "1"),
        real("relative_throughput", "Throughput over the first one's.", "1"),
        truth("is_base", "Whether it is the first one."),
    ),
    compute=systems,
    chart=bars(("agent", "System"), ("relative_latency", "Relative latency"), facet="framework"),
)
