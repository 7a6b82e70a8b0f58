"""Cost of a million inferences, from throughput and the hourly price of an agent."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, curves
from services.analyzer.building.table import estimate_columns, float_column, make_table, text_column
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    PLACE_DETAILS,
    Cells,
    Comparison,
    Source,
    Terms,
    place_of,
    preparation_notes,
    rates,
)


def cost(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row for each evaluation, agent with a price in `terms`, and batch size."""
    rows = [{name: row[name] for name in _NAMES} for row in priced(sources, terms)]
    without = sorted({row["agent"] for row in rates(sources)} - terms.prices.keys())
    verdict = "No agent has a price: give dollars an hour, here or with `--price AGENT=DOLLARS`."
    if rows:
        cheapest = leader(rows, "cost", is_largest=False)
        place, amount = place_of(cheapest.row), estimate_text(cheapest.row, "cost", "")
        verdict = f"Cheapest is {place}: ${amount} a million inferences."
        if doubt := cheapest.doubt("which is the cheapest", place_of, PLACE_DETAILS):
            verdict = f"{capitalised(doubt)}; about ${amount} a million inferences."
    notes = [f"no price of: {', '.join(without)}"] if without and rows else []
    notes += preparation_notes(sources)
    return make_table(COMPARISON, rows, verdict, notes)


def priced(sources: Sequence[Source], terms: Terms) -> list[Cells]:
    """Return the rates of agents with a price, with the cost ($) of a million inferences there.

    Cost is the hourly price over the samples in an hour; the ends of the interval swap.
    """
    rows = []
    for row in rates(sources):
        price = terms.prices.get(row["agent"])
        if price is None:
            continue
        million = price / 3600 * 1e6
        low, high = row["samples_per_s_low"], row["samples_per_s_high"]
        prices = {
            "price": price,
            "cost": million / row["samples_per_s"],
            "cost_low": million / high if high else None,
            "cost_high": million / low if low else None,
        }
        rows.append({**row, **prices})
    return rows


COMPARISON = Comparison(
    name="cost",
    title="Cost of a million inferences",
    source=(
        "Hourly price / (samples per second x 3600) x 1,000,000, as PLAT compares AWS machines; "
        "the interval is that of the throughput. Idle time is paid for too."
    ),
    columns=(
        *PLACE_COLUMNS,
        text_column("run", "Name of the run."),
        float_column("price", "Hourly price of the agent, as given.", "USD/h"),
        float_column("samples_per_s", "Samples answered per second.", "1/s"),
        *estimate_columns("cost", "Cost of a million inferences.", "USD"),
    ),
    compute=cost,
    chart=curves(
        ("batch_size", "Batch size"),
        Axis("cost", "$ a million"),
        "evaluation",
        "agent",
        has_interval=True,
    ),
)
_NAMES = tuple(column.name for column in COMPARISON.columns)
