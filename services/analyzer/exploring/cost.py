"""Cost of a million inferences on each system with a price."""

from collections.abc import Mapping, Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.table import estimate_columns, float_column, make_table, text_column
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    add_subjects,
    fastest_batches,
    place_cells,
)

_NOTHING = "No agent has a price: give dollars an hour of the agents below."


def cost(rows: Sequence[Cells], prices: Mapping[str, float]) -> Table:
    """Return each model and priced system at its highest throughput; ends of intervals swap."""
    agents = {str(row["agent"]) for row in rows}
    cells: list[Cells] = []
    for row in fastest_batches(rows):
        if row["agent"] not in prices:
            continue
        price = prices[row["agent"]]
        million = price / 3600 * 1e6
        low, high = row["samples_per_s_low"], row["samples_per_s_high"]
        cells.append(
            {
                **place_cells(row),
                "price": price,
                "samples_per_s": row["samples_per_s"],
                "cost": million / row["samples_per_s"],
                "cost_low": million / high if high else None,
                "cost_high": million / low if low else None,
            }
        )
    add_subjects(cells)
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    cheapest = leader(cells, "cost", is_largest=False)
    least = cheapest.row
    amount = (
        f"${estimate_text(least, 'cost', '')} a million inferences at batch {least['batch_size']}"
    )
    without = sorted(agents - prices.keys())
    notes = [f"no price of: {', '.join(without)}"] if without else []
    verdict = f"Cheapest is {least['subject']}: {amount}."
    if doubt := cheapest.doubt("which is the cheapest", lambda row: str(row["subject"])):
        verdict = f"{capitalised(doubt)}; {least['subject']} costs about {amount}."
    return make_table(EXPLORATION, cells, verdict, notes)


EXPLORATION = Exploration(
    name="cost",
    title="Cost of a million inferences",
    source=(
        "Hourly price / (highest samples per second x 3600) x 1,000,000, as PLAT compares AWS "
        "machines; the interval is that of the throughput. Idle time is paid for too."
    ),
    columns=(
        text_column("subject", "The model, and what distinguishes its system."),
        *PLACE_COLUMNS,
        float_column("price", "Hourly price of the agent, as given.", "USD/h"),
        float_column("samples_per_s", "Highest throughput.", "1/s"),
        *estimate_columns("cost", "Cost of a million inferences.", "USD"),
    ),
    compute=cost,
    chart=ranked(
        ("subject", " "), Axis("cost", "$ a million inferences"), "agent", color="agent", facet=""
    ),
)
