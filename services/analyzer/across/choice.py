"""Which system and batch size to choose under targets of latency, cost and accuracy."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.across.cost import priced
from services.analyzer.across.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    best_accuracy,
    rates,
)
from services.analyzer.tables.charts import points
from services.analyzer.tables.table import in_time, made, real, text, truth


def choice(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row an evaluation, agent and batch size: does it meet the targets, is it chosen.

    Chosen is the cheapest that meets them; without prices the one of most throughput. Latency is
    judged by the upper end of its interval, accuracy by the lower: a target is met for sure.
    """
    rows = [row for each in sources for row in _rows(each, terms)]
    fitting = [row for row in rows if not row["misses"]]
    best = min(fitting, key=_preference, default=None)
    told = [{**row, "is_chosen": row is best, "meets": not row["misses"]} for row in rows]
    return made(COMPARISON, told, _verdict(terms, rows, best), _caveats(terms, rows))


def _preference(row: Cells) -> tuple[float, float]:
    cost = row["cost"] if row["cost"] is not None else float("inf")
    return cost, -row["samples_per_s"]


def _verdict(terms: Terms, rows: Sequence[Cells], best: Cells | None) -> str:
    if not rows:
        return "No evaluation measured latency in a closed loop."
    wanted = _wanted(terms)
    if best is None:
        return f"None of {len(rows)} meets {wanted}."
    why = "of most throughput"
    if best["cost"] is not None:
        why = "the cheapest of those with a price" if _unpriced(rows) else "the cheapest"
    met = f" that meets {wanted}" if wanted else "; no target was given"
    return (
        f"Choose {best['model'] or best['evaluation']} on {best['agent']} at batch "
        f"{best['batch_size']}, {why}{met}."
    )


def _caveats(terms: Terms, rows: Sequence[Cells]) -> list[str]:
    """Return what a choice leaves aside: that models are not one another's equal, and prices."""
    notes = []
    named = (row["model"] or row["evaluation"] for row in rows)
    models = sorted({name.rpartition(":")[0] or name for name in named})
    if len(models) > 1 and terms.least_accuracy is None:
        told = ", ".join(models)
        notes.append(f"models differ: {told}: without a target of accuracy any is as good")
    if terms.prices and (without := _unpriced(rows)):
        notes.append(f"no price of: {', '.join(without)}")
    return notes


def _unpriced(rows: Sequence[Cells]) -> list[str]:
    return sorted({row["agent"] for row in rows if row["cost"] is None})


def _wanted(terms: Terms) -> str:
    told = []
    if terms.most_latency_ns is not None:
        told.append(f"a latency of {in_time(terms.most_latency_ns)}")
    if terms.most_cost is not None:
        told.append(f"${terms.most_cost:g} a million")
    if terms.least_accuracy is not None:
        told.append(f"accuracy {terms.least_accuracy:g}")
    return " and ".join(told)


def _rows(source: Source, terms: Terms) -> list[Cells]:
    known = best_accuracy(source)
    costs = {(r["agent"], r["run"]): r for r in priced([source], terms)}
    found = []
    for row in rates(source):
        accuracy = known.get((row["agent"], row["batch_size"]), {})
        cost = costs.get((row["agent"], row["run"]), {})
        cells = {
            **{name: row[name] for name in _KEPT},
            "cost": cost.get("cost"),
            "metric": accuracy.get("metric", ""),
            "accuracy": accuracy.get("value"),
            "accuracy_low": accuracy.get("value_low"),
        }
        found.append({**cells, "misses": ", ".join(_missed(cells, terms))})
    return found


def _missed(row: Cells, terms: Terms) -> list[str]:
    """Return which targets a row does not meet; what is unknown meets none."""
    latency = row["latency_high"] or row["latency"]
    accuracy = row["accuracy_low"] if row["accuracy_low"] is not None else row["accuracy"]
    checks = (
        ("latency", terms.most_latency_ns, latency, 1.0),
        ("cost", terms.most_cost, row["cost"], 1.0),
        ("accuracy", terms.least_accuracy, accuracy, -1.0),
    )
    return [
        f"{name} unknown" if found is None else name
        for name, target, found, sign in checks
        if target is not None and (found is None or sign * found > sign * target)
    ]


_SPEED = (
    text("run", "The run."),
    real("latency", "Trimmed mean latency of a query."),
    real("latency_high", "Upper end of its 95 % interval: what the target is held against."),
    real("samples_per_s", "Samples answered a second.", "1/s"),
)
_KEPT = tuple(column.name for column in (*PLACE_COLUMNS, *_SPEED))

COMPARISON = Comparison(
    name="choice",
    title="Which system and batch size",
    source=(
        "The cheapest row that meets every target, without prices that of most throughput; "
        "latency by the upper, accuracy by the lower end of its interval (XSP III-D: a metric of "
        "the user's in place of the 5 % rule)."
    ),
    columns=(
        *PLACE_COLUMNS,
        *_SPEED,
        real("cost", "Cost of a million inferences; null without a price.", "USD"),
        text("metric", "What accuracy is."),
        real("accuracy", "Its value.", "1"),
        real("accuracy_low", "Lower end of its interval.", "1"),
        text("misses", "Targets it does not meet; '' where it meets all."),
        truth("meets", "Whether it meets all."),
        truth("is_chosen", "Whether it is the choice."),
    ),
    compute=choice,
    chart=points(
        ("latency", "Latency of a query (ns)"),
        ("samples_per_s", "Samples a second"),
        "meets",
        ("agent", "model", "batch_size", "cost", "misses"),
    ),
)
