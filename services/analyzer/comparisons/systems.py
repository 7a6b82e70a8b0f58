"""A model across systems and frameworks, normalised to the first evaluation."""

from collections import defaultdict
from collections.abc import Sequence

from mlscope.manifests.naming import name_in_figures
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import Margin, margin_in, ratio
from services.analyzer.building.table import (
    bool_column,
    estimate_columns,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    difference_notes,
    preparation_notes,
    rates,
    subject_of,
)

_SCENARIO = "scenario"


def systems(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation and agent: online latency and best throughput.

    Both are also relative to the first row.
    """
    rows = [row for source in sources for row in _system_rows(source)]
    if not rows:
        return make_table(COMPARISON, [], "No evaluation measured latency in a closed loop.")
    base = rows[0]
    cells = [
        {
            **{name: cell for name, cell in row.items() if name != _SCENARIO},
            **_relative(row, base, "latency").cells("relative_latency"),
            **_relative(row, base, "samples_per_s").cells("relative_throughput"),
            "is_base": row is base,
        }
        for row in rows
    ]
    notes = difference_notes("models", (name_in_figures(row["model"]) for row in rows))
    notes += difference_notes(
        "scenarios",
        (row[_SCENARIO] for row in rows),
        ": their latencies are not comparable: overlapping queries wait for each other",
    )
    sizes = sorted({row["batch_size"] for row in rows})
    if len(sizes) > 1:
        notes.append(f"latencies are those of queries of batch sizes {', '.join(map(str, sizes))}")
    notes += preparation_notes(sources)
    return make_table(COMPARISON, cells, _verdict(cells, _names(rows)), notes)


def _relative(row: Cells, base: Cells, name: str) -> Margin:
    if row is base:
        return Margin(1.0, 1.0, 1.0)
    return ratio(margin_in(row, name), margin_in(base, name))


def _verdict(rows: Sequence[Cells], names: Sequence[str]) -> str:
    """Return which row is the fastest by latency and by throughput; `names` are the rows'."""
    parts = []
    for title, amount, is_largest in (
        ("lowest latency", "latency", False),
        ("highest throughput", "samples_per_s", True),
    ):
        first = leader(rows, amount, is_largest=is_largest)
        question = f"which has the {title}"
        if doubt := first.doubt(question, lambda row: names[rows.index(row)]):
            parts.append(doubt)
            continue
        relative = "relative_latency" if amount == "latency" else "relative_throughput"
        has_ratio = not first.row["is_base"] and first.row[relative] is not None
        times = f", {estimate_text(first.row, relative, '')} times that of {names[0]}"
        parts.append(f"{title}: {names[rows.index(first.row)]}{times if has_ratio else ''}")
    return f"{capitalised('; '.join(parts))}."


def _names(rows: Sequence[Cells]) -> list[str]:
    """Return distinct names of the rows: system, with model and evaluation where these differ."""
    names = [f"{row['agent']} ({row['framework'] or row['evaluation']})" for row in rows]
    if len({row["model"] for row in rows}) > 1:
        pairs = zip(rows, names, strict=True)
        names = [f"{subject_of(row)} on {name}" for row, name in pairs]
    if len(set(names)) < len(names):
        pairs = zip(rows, names, strict=True)
        names = [f"{name} in {row['evaluation']}" for row, name in pairs]
    return names


def _system_rows(source: Source) -> list[Cells]:
    """Return a row for each agent: latency of its smallest batch, and its highest throughput."""
    groups: dict[str, list[Cells]] = defaultdict(list)
    for row in rates([source]):
        groups[row["agent"]].append(row)
    rows = []
    for group in groups.values():
        online = min(group, key=lambda row: int(row["batch_size"]))
        fastest = leader(group, "samples_per_s")
        best = fastest.row
        optimal = next((row["batch_size"] for row in group if row["is_optimal"]), None)
        rate = {n: best[n] for n in ("samples_per_s", "samples_per_s_low", "samples_per_s_high")}
        of_online = ("run", "queries", "latency", "latency_low", "latency_high")
        place = [column.name for column in PLACE_COLUMNS]
        rate[_SCENARIO] = online[_SCENARIO]
        sizes = {
            "best_batch_size": None if fastest.rivals else best["batch_size"],
            "optimal_batch": optimal,
        }
        rows.append({**{n: online[n] for n in (*place, *of_online)}, **rate, **sizes})
    return rows


COMPARISON = Comparison(
    name="systems",
    title="Across systems and frameworks",
    source=(
        "XSP Table X and Figures 10 to 13: latency of the smallest batch size and the highest "
        "throughput, each relative to the first evaluation. The interval of a ratio combines both, "
        "by logarithms (Zou and Donner 2008)."
    ),
    columns=(
        *PLACE_COLUMNS,
        text_column("run", "The run with the smallest batch size."),
        int_column("queries", "Queries answered in that run."),
        *estimate_columns("latency", "Trimmed mean latency of its queries."),
        *estimate_columns(
            "samples_per_s", "The highest throughput: samples answered per second.", "1/s"
        ),
        int_column(
            "best_batch_size",
            "The batch size with the highest throughput; null where intervals leave it open.",
        ),
        int_column(
            "optimal_batch",
            "The optimal batch size by the 5% rule; null where it is in doubt, or of one size.",
        ),
        *estimate_columns("relative_latency", "Latency relative to the first row.", "1"),
        *estimate_columns("relative_throughput", "Throughput relative to the first row.", "1"),
        bool_column("is_base", "Whether this is the first row."),
    ),
    compute=systems,
    chart=bars(
        ("agent", "System"),
        Axis("relative_latency", "Relative latency"),
        facet="framework",
    ),
)
