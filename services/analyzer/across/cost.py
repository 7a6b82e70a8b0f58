"""Cost of a million inferences, of throughput and the price of an agent's hour."""

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
from services.analyzer.tables.charts import lines
from services.analyzer.tables.table import estimate, made, real, text


def cost(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row an evaluation, agent with a price, and batch size."""
    found = priced(sources, terms)
    rows = [{name: row[name] for name in _NAMES} for row in found]
    without = sorted(
        {row["agent"] for each in sources for row in rates(each)} - terms.prices.keys()
    )
    verdict = "No agent's price is known: `--price AGENT=DOLLARS` an hour."
    if rows:
        best = min(rows, key=lambda row: row["cost"])
        verdict = (
            f"Cheapest is {best['model'] or best['evaluation']} on {best['agent']} at batch "
            f"{best['batch_size']}: ${number(best['cost'])} a million inferences."
        )
    notes = [f"no price of: {', '.join(without)}"] if without and rows else []
    return made(COMPARISON, rows, verdict, notes)


def priced(sources: Sequence[Source], terms: Terms) -> list[Cells]:
    """Return the rates of agents with a price, with what a million inferences cost there."""
    return [
        {**row, **_cost(row, terms.prices[row["agent"]])}
        for source in sources
        for row in rates(source)
        if row["agent"] in terms.prices
    ]


def _cost(row: Cells, price: float) -> Cells:
    """Return $ a million: the price of an hour over the samples of an hour, ends swapped."""
    per = price / 3600 * 1e6
    low, high = row["samples_per_s_low"], row["samples_per_s_high"]
    return {
        "price": price,
        "cost": per / row["samples_per_s"],
        "cost_low": per / high if high else None,
        "cost_high": per / low if low else None,
    }


COMPARISON = Comparison(
    name="cost",
    title="Cost of a million inferences",
    source=(
        "Price of an hour / (samples a second x 3600) x 1,000,000, as PLAT compares AWS machines; "
        "the interval is throughput's. An hour is paid whether its seconds are used or not."
    ),
    columns=(
        *PLACE_COLUMNS,
        text("run", "The run."),
        real("price", "Price of an hour of its agent, as given.", "USD/h"),
        real("samples_per_s", "Samples answered a second.", "1/s"),
        *estimate("cost", "Cost of a million inferences.", "USD"),
    ),
    compute=cost,
    chart=lines(("batch_size", "Batch size"), ("cost", "$ a million"), "evaluation", "agent"),
)
_NAMES = tuple(column.name for column in COMPARISON.columns)
