"""Layers and kernels of several evaluations side by side: what takes longer than in the first.

Of each evaluation it is the first run with layers (kernels). A row is a layer by its name; models
exported twice name theirs differently, so layers are matched by type where no name is the same.
Names that occur several times are matched in their order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from mlscope.counts import be, many
from schemas.analysis import Table
from services.analyzer.building.best import estimate_text, leader
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.margins import UNKNOWN, Margin, difference, margin_in, ratio
from services.analyzer.building.table import estimate_columns, int_column, make_table, text_column
from services.analyzer.comparisons.source import Cells, Comparison, Source, Terms
from services.analyzer.comparisons.verdicts import changes_text

_NONE = Margin(0.0, 0.0, 0.0)
MOST_ROWS = 200
"""Rows of one comparison; those that change the least are left out, and the caveats say so."""
_BOTH, _ONLY_BASE, _ONLY_OTHER = "both", "first", "other"
Key = tuple[object, ...]


def layer_changes(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each layer and further evaluation."""
    return _changes(LAYERS, sources, "layers", ("type",))


def kernel_changes(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each kernel, over all of its layers, and further evaluation."""
    return _changes(KERNELS, sources, "kernels", ())


def _changes(
    comparison: Comparison, sources: Sequence[Source], table: str, similar: Sequence[str]
) -> Table:
    """Return a `comparison` of a `table`, whose rows match by name, else by the cells `similar`."""
    by_evaluation = [(source.evaluation, _first_run(source.rows(table))) for source in sources]
    noun = table.removesuffix("s")
    if len(by_evaluation) < 2 or not by_evaluation[0][1]:
        return make_table(comparison, [], f"The first evaluation has no {table}.")
    rows, notes = [], []
    (base_name, base), *compared = by_evaluation
    for evaluation, compared_rows in compared:
        if not compared_rows:
            notes.append(f"{evaluation} has no {table}")
            continue
        by_name = _keyed(base, ("name",)).keys() & _keyed(compared_rows, ("name",)).keys()
        names = ("name",) if by_name or not similar else tuple(similar)
        if not by_name and similar:
            notes.append(f"no {noun} of {evaluation} has a name of {base_name}: matched by type")
        rows += _rows(evaluation, _keyed(base, names), _keyed(compared_rows, names))
    rows.sort(key=lambda row: -abs(row["change"] or 0.0))
    if len(rows) > MOST_ROWS:
        notes.append(f"the {MOST_ROWS} largest changes of {len(rows)} {table}")
    return make_table(comparison, rows[:MOST_ROWS], _verdict(rows, noun), notes)


def _first_run(rows: Sequence[Cells]) -> list[Cells]:
    """Return the rows of the first plain run, in their order; none without one."""
    plain = [row for row in rows if not row.get("variant") and row["time"] is not None]
    return [row for row in plain if row["run"] == plain[0]["run"]]


def _keyed(rows: Iterable[Cells], names: Sequence[str]) -> dict[Key, Cells]:
    """Return rows by the cells `names` and their number among those of the same cells."""
    counts: Counter[Key] = Counter()
    keyed = {}
    for row in rows:
        cells = tuple(row[name] for name in names)
        keyed[*cells, counts[cells]] = row
        counts[cells] += 1
    return keyed


def _rows(evaluation: str, base: Mapping[Key, Cells], compared: Mapping[Key, Cells]) -> list[Cells]:
    """Return a row for each key of either; what only one has changes by its whole time."""
    rows = []
    for key in dict.fromkeys((*base, *compared)):
        first, second = base.get(key), compared.get(key)
        old = margin_in(first, "time") if first else UNKNOWN
        new = margin_in(second, "time") if second else UNKNOWN
        change = difference(new, old).cells("change")
        if first is None or second is None:
            change["change"] = (new.value or 0.0) - (old.value or 0.0)
        place = first or second or {}
        found_in = _BOTH if first and second else _ONLY_BASE if first else _ONLY_OTHER
        rows.append(
            {
                "evaluation": evaluation,
                "index": place.get("index", place.get("layer")),
                "name": place["name"],
                "type": place.get("type", place.get("layer_name") or ""),
                "other_name": second["name"] if second else "",
                "found_in": found_in,
                **old.cells("first_time"),
                **new.cells("time"),
                **change,
                **ratio(new, old).cells("ratio"),
                "result": _result(change),
            }
        )
    return rows


def _verdict(rows: Sequence[Cells], noun: str) -> str:
    """Return how many changed by their intervals, and the largest change where these tell."""
    if not rows:
        return f"No other evaluation has {noun}s."
    paired = [row for row in rows if row["found_in"] == _BOTH]
    single = len(rows) - len(paired)
    alone = f"; {many(single, noun)} {be(single)} in one evaluation only" if single else ""
    if not paired:
        return f"No {noun} is in both{alone}."
    changed = [row for row in paired if row["result"] in ("slower", "faster")]
    changes = changes_text(many(len(paired), noun), Counter(row["result"] for row in paired))
    return f"{changes}; {_largest_text(changed or paired, noun)}{alone}."


def _largest_text(rows: Sequence[Cells], noun: str) -> str:
    """Return the largest change of the rows that changed; of others, the largest estimate."""
    largest = leader([{**row, **_size(row).cells("size")} for row in rows], "size")
    name, change = largest.row["name"], estimate_text(largest.row, "change", "ns")
    if _result(largest.row) not in ("slower", "faster"):
        return f"the largest estimate is no certain change: {name} changes by {change}"
    if doubt := largest.doubt(
        "which changes the most", lambda row: str(row["name"]), ("evaluation", "index")
    ):
        return f"{doubt}; {name} changes by {change}"
    if len(rows) > 1:
        return f"of the changed {noun}s {name} changes the most, by {change}"
    return f"{name} changes by {change}"


def _size(row: Cells) -> Margin:
    """Return by how much a row changes, whether it is slower or faster."""
    change = margin_in(row, "change")
    return change if (change.value or 0.0) >= 0.0 else difference(_NONE, change)


def _result(row: Cells) -> str:
    """Return slower or faster where the whole interval of a change says so."""
    low, high = row["change_low"], row["change_high"]
    if low is None or high is None:
        return "unknown"
    return "slower" if low > 0.0 else "faster" if high < 0.0 else "same"


def _comparison(noun: str, title: str, compute: Callable[..., Table], place: str) -> Comparison:
    """Return the comparison of the rows called `noun`, whose column `type` is its `place`."""
    return Comparison(
        name=f"{noun}_changes",
        title=title,
        source=(
            f"Trimmed mean time of a query in each {noun}, of the first run with {noun}s; the "
            "intervals of a difference and of a ratio combine both (Zou and Donner 2008)."
        ),
        columns=(
            text_column("evaluation", "The evaluation that is compared with the first."),
            int_column("index", "Number of the layer in the first evaluation that has it."),
            text_column("name", f"Name of the {noun}."),
            text_column("type", place),
            text_column("other_name", "Its name in the other evaluation; '' where it has none."),
            text_column("found_in", "Where it is: both, or only the first or the other one."),
            *estimate_columns("first_time", "Its time per query in the first evaluation."),
            *estimate_columns("time", "Its time per query in the other evaluation."),
            *estimate_columns(
                "change", "Other less first; the whole time where only one has it, no interval."
            ),
            *estimate_columns("ratio", "Other over first; null where only one has it.", "1"),
            text_column(
                "result", "Slower or faster where the whole interval agrees, same, or unknown."
            ),
        ),
        compute=compute,
        chart=ranked(
            ("name", title.partition(" ")[0]),
            Axis("change", "Change of time per query", "ns"),
            "type",
            "found_in",
            color="result",
            facet="evaluation",
        ),
    )


LAYERS = _comparison("layer", "Layers that change", layer_changes, "The layer's type.")
KERNELS = _comparison(
    "kernel", "Kernels that change", kernel_changes, "Name of the layer that launched it first."
)
