"""Which system and batch size to choose under targets of latency, cost and accuracy."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.building.charts import points
from services.analyzer.building.table import (
    bool_column,
    float_column,
    format_time,
    make_table,
    text_column,
)
from services.analyzer.comparisons.cost import priced
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    best_accuracy,
    rates,
)


def choice(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size: whether it meets the targets.

    The cheapest row that meets the targets in `terms` is chosen; without prices, the one with the
    highest throughput. Latency is judged by the upper end of its interval and accuracy by the
    lower, so a target counts as met only where the interval is on its side.
    """
    rows = [row for source in sources for row in _rows(source, terms)]
    fitting = [row for row in rows if not row["misses"]]
    best = min(
        fitting,
        key=lambda row: (
            row["cost"] if row["cost"] is not None else float("inf"),
            -row["samples_per_s"],
        ),
        default=None,
    )
    unpriced = sorted({row["agent"] for row in rows if row["cost"] is None})
    names = {row["model"] or row["evaluation"] for row in rows}
    models = sorted({name.rpartition(":")[0] or name for name in names})
    notes = []
    if len(models) > 1 and terms.least_accuracy is None:
        notes.append(
            f"models differ: {', '.join(models)}: without a target of accuracy they count as equal"
        )
    if terms.prices and unpriced:
        notes.append(f"no price of: {', '.join(unpriced)}")
    verdict = _verdict(terms, rows, best, has_unpriced=bool(unpriced))
    chosen = [{**row, "is_chosen": row is best, "meets": not row["misses"]} for row in rows]
    return make_table(COMPARISON, chosen, verdict, notes)


def _verdict(terms: Terms, rows: Sequence[Cells], best: Cells | None, *, has_unpriced: bool) -> str:
    if not rows:
        return "No evaluation measured latency in a closed loop."
    targets = []
    if terms.most_latency_ns is not None:
        targets.append(f"a latency of {format_time(terms.most_latency_ns)}")
    if terms.most_cost is not None:
        targets.append(f"${terms.most_cost:g} a million")
    if terms.least_accuracy is not None:
        targets.append(f"accuracy {terms.least_accuracy:g}")
    target = " and ".join(targets)
    if best is None:
        return f"None of {len(rows)} meets {target}."
    reason = "with the highest throughput"
    if best["cost"] is not None:
        reason = "the cheapest of those with a price" if has_unpriced else "the cheapest"
    met = f" that meets {target}" if target else "; no target was given"
    return (
        f"Choose {best['model'] or best['evaluation']} on {best['agent']} at batch "
        f"{best['batch_size']}, {reason}{met}."
    )


def _rows(source: Source, terms: Terms) -> list[Cells]:
    accuracies = best_accuracy(source)
    costs = {(row["agent"], row["run"]): row["cost"] for row in priced([source], terms)}
    rows = []
    for rate in rates(source):
        accuracy = accuracies.get((rate["agent"], rate["batch_size"]), {})
        cells = {
            **{name: rate[name] for name in _OF_RATES},
            "cost": costs.get((rate["agent"], rate["run"])),
            "metric": accuracy.get("metric", ""),
            "accuracy": accuracy.get("value"),
            "accuracy_low": accuracy.get("value_low"),
        }
        rows.append({**cells, "misses": ", ".join(_missed_targets(cells, terms))})
    return rows


def _missed_targets(row: Cells, terms: Terms) -> list[str]:
    """Return the targets that a row does not meet; an unknown value meets none."""
    latency = row["latency_high"] or row["latency"]
    accuracy = row["accuracy_low"] if row["accuracy_low"] is not None else row["accuracy"]
    checks = (
        ("latency", terms.most_latency_ns, latency, 1.0),
        ("cost", terms.most_cost, row["cost"], 1.0),
        ("accuracy", terms.least_accuracy, accuracy, -1.0),
    )
    return [
        f"{name} unknown" if value is None else name
        for name, target, value, sign in checks
        if target is not None and (value is None or sign * value > sign * target)
    ]


_SPEED = (
    text_column("run", "Name of the run."),
    float_column("latency", "Trimmed mean latency of queries."),
    float_column(
        "latency_high", "Upper end of its 95 % interval, which is compared with the target."
    ),
    float_column("samples_per_s", "Samples answered per second.", "1/s"),
)
_OF_RATES = tuple(column.name for column in (*PLACE_COLUMNS, *_SPEED))

COMPARISON = Comparison(
    name="choice",
    title="Which system and batch size",
    source=(
        "The cheapest row that meets every target; without prices, the one with the highest "
        "throughput. Latency counts by the upper end of its interval, accuracy by the lower (XSP "
        "III-D: a metric of the user's choice in place of the 5 % rule)."
    ),
    columns=(
        *PLACE_COLUMNS,
        *_SPEED,
        float_column("cost", "Cost of a million inferences; null without a price.", "USD"),
        text_column("metric", "Name of the accuracy metric."),
        float_column("accuracy", "Value of the metric.", "1"),
        float_column("accuracy_low", "Lower end of the metric's 95 % interval.", "1"),
        text_column("misses", "Targets that the row does not meet; '' where it meets all."),
        bool_column("meets", "Whether the row meets every target."),
        bool_column("is_chosen", "Whether the row is the choice."),
    ),
    compute=choice,
    chart=points(
        ("latency", "Latency of a query (ns)"),
        ("samples_per_s", "Samples per second"),
        "meets",
        ("agent", "model", "batch_size", "cost", "misses"),
    ),
)
