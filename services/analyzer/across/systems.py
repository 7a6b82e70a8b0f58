"""A model across systems and frameworks, normalised to the first evaluation."""

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
from services.analyzer.tables.charts import bars
from services.analyzer.tables.table import estimate, made, real, share, text, truth, whole

_SCENARIO = "scenario"


def systems(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row an evaluation and agent: online latency, best throughput, and both relative."""
    found = [row for each in sources for row in _rows(each)]
    if not found:
        return made(COMPARISON, [], "No evaluation measured latency in a closed loop.")
    rows = [{name: cell for name, cell in row.items() if name != _SCENARIO} for row in found]
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
    names = _names(rows)
    of = f" that of {names[0]}"
    verdict = (
        f"Least latency: {names[told.index(fastest)]}"
        f"{_times(fastest['relative_latency'], fastest['is_base'], of)}; "
        f"most throughput: {names[told.index(most)]}"
        f"{_times(most['relative_throughput'], most['is_base'], of)}."
    )
    return made(COMPARISON, told, verdict, _unlike(found))


def _times(ratio: float, is_base: bool, of: str) -> str:
    return "" if is_base else f", {number(ratio, 3)} times{of}"


def _names(rows: Sequence[Cells]) -> list[str]:
    """Return how rows are told apart: by system, by model where these differ, by evaluation."""
    names = [f"{row['agent']} ({row['framework'] or row['evaluation']})" for row in rows]
    if len({row["model"] for row in rows}) > 1:
        pairs = zip(rows, names, strict=True)
        names = [f"{row['model'] or row['evaluation']} on {name}" for row, name in pairs]
    if len(set(names)) < len(names):
        pairs = zip(rows, names, strict=True)
        names = [f"{name} in {row['evaluation']}" for row, name in pairs]
    return names


def _unlike(rows: Sequence[Cells]) -> list[str]:
    models = sorted({row["model"].rpartition(":")[0] or row["model"] for row in rows})
    sizes = sorted({row["batch_size"] for row in rows})
    scenarios = sorted({row[_SCENARIO] for row in rows})
    notes = [f"models differ: {', '.join(models)}"] if len(models) > 1 else []
    if len(scenarios) > 1:
        notes.append(
            f"scenarios differ: {', '.join(scenarios)}: a latency under one is no other's, as "
            "queries that overlap wait for each other"
        )
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
        rate[_SCENARIO] = online[_SCENARIO]
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
