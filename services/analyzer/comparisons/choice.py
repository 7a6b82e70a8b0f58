"""Which system and batch size to choose under targets of latency, cost and accuracy."""

from collections.abc import Sequence

from mlscope.manifests.naming import name_in_figures
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, leader
from services.analyzer.building.charts import Axis, points
from services.analyzer.building.margins import UNKNOWN, margin_in
from services.analyzer.building.table import (
    bool_column,
    estimate_columns,
    float_column,
    make_table,
    text_column,
)
from services.analyzer.comparisons.cost import priced
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    PLACE_DETAILS,
    Cells,
    Comparison,
    Source,
    Terms,
    difference_notes,
    place_of,
    preparation_notes,
    rates_with_accuracy,
    subject_of,
)


def choice(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size: whether it meets the targets.

    The cheapest row that meets the targets in `terms` is chosen; without prices, the one with the
    highest throughput. Latency is judged by the upper end of its interval and accuracy by the
    lower, so a target counts as met only where the interval is on its side.
    """
    rows = []
    for source in sources:
        costs = {
            (row["agent"], row["run"]): margin_in(row, "cost") for row in priced([source], terms)
        }
        for rate, accuracy in rates_with_accuracy(source):
            cells = {
                **{name: rate[name] for name in _OF_RATES},
                **costs.get((rate["agent"], rate["run"]), UNKNOWN).cells("cost"),
                "metric": accuracy.get("metric", ""),
                "accuracy": accuracy.get("value"),
                "accuracy_low": accuracy.get("value_low"),
            }
            rows.append({**cells, "misses": ", ".join(terms.missed_by(cells))})
    fitting = [row for row in rows if not row["misses"]]
    # Rows without a price come last, of equal prices the highest throughput first.
    best = min(
        fitting,
        key=lambda row: (row["cost"] is None, row["cost"] or 0.0, -row["samples_per_s"]),
        default=None,
    )
    unpriced = sorted({row["agent"] for row in rows if row["cost"] is None})
    notes = []
    if terms.least_accuracy is None:
        notes = difference_notes(
            "models",
            (name_in_figures(subject_of(row)) for row in rows),
            ": without a target of accuracy they count as equal",
        )
    if terms.prices and unpriced:
        notes.append(f"no price of: {', '.join(unpriced)}")
    doubt = _doubt(fitting, best) if best is not None else ""
    basis = " by the estimates" if doubt else ""
    verdict = f"{_verdict(terms, rows, best, basis, has_unpriced=bool(unpriced))}{doubt}"
    chosen = [{**row, "is_chosen": row is best, "meets": not row["misses"]} for row in rows]
    notes = [*notes, *preparation_notes(sources)]
    return make_table(COMPARISON, chosen, verdict, notes)


def _verdict(
    terms: Terms, rows: Sequence[Cells], best: Cells | None, basis: str, *, has_unpriced: bool
) -> str:
    """Return the choice; `basis` says what it is by where the intervals leave it open."""
    if not rows:
        return "No evaluation measured latency in a closed loop."
    target = terms.targets
    if best is None:
        return f"None of {len(rows)} meets {target}."
    reason = "with the highest throughput"
    if best["cost"] is not None:
        reason = "the cheapest of those with a price" if has_unpriced else "the cheapest"
    met = f" that meets {target}" if target else "; no target was given"
    return f"Choose {place_of(best)}, {reason}{basis}{met}."


def _doubt(fitting: Sequence[Cells], best: Cells) -> str:
    """Return which rows the intervals do not tell apart from the `best` of the `fitting` ones."""
    is_priced = best["cost"] is not None
    comparable = [row for row in fitting if not is_priced or row["cost"] is not None]
    chosen = leader(comparable, "cost" if is_priced else "samples_per_s", is_largest=not is_priced)
    question = f"which {'is the cheapest' if is_priced else 'has the highest throughput'}"
    doubt = chosen.doubt(question, place_of, PLACE_DETAILS)
    return f" {capitalised(doubt)}." if doubt else ""


_SPEED = (
    text_column("run", "Name of the run."),
    float_column("latency", "Trimmed mean latency of queries."),
    float_column(
        "latency_high", "Upper end of its 95% interval, which is compared with the target."
    ),
    *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
)
_OF_RATES = tuple(column.name for column in (*PLACE_COLUMNS, *_SPEED))

COMPARISON = Comparison(
    name="choice",
    title="Which system and batch size",
    source=(
        "The cheapest row that meets every target; without prices, the one with the highest "
        "throughput. Latency counts by the upper end of its interval, accuracy by the lower (XSP "
        "III-D: a metric of the user's choice in place of the 5% rule)."
    ),
    columns=(
        *PLACE_COLUMNS,
        *_SPEED,
        *estimate_columns("cost", "Cost of a million inferences; null without a price.", "USD"),
        text_column("metric", "Name of the accuracy metric."),
        float_column("accuracy", "Value of the metric.", "1"),
        float_column("accuracy_low", "Lower end of the metric's 95% interval.", "1"),
        text_column("misses", "Targets that the row does not meet; '' where it meets all."),
        bool_column("meets", "Whether the row meets every target."),
        bool_column("is_chosen", "Whether the row is the choice."),
    ),
    compute=choice,
    chart=points(
        Axis("latency", "Latency of a query", "ns"),
        Axis("samples_per_s", "Samples per second"),
        "evaluation",
        ("agent", "model", "batch_size", "cost", "meets", "misses", "is_chosen"),
    ),
)
