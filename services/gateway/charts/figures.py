"""A table's chart as HTML for a page: drawn wide and narrow, or why it is not drawn."""

import asyncio

from markupsafe import escape

from schemas.analysis import Table
from services.gateway.charts.axes import Size
from services.gateway.charts.choosing import Choosing
from services.gateway.charts.drawing import Pictures
from services.gateway.charts.fitting import NARROW, WIDE, fitted
from services.gateway.charts.inline import inlined
from services.gateway.charts.theme import PAGE
from services.gateway.errors import CannotDraw


async def figure_of(
    pictures: Pictures,
    table: Table,
    *,
    among: Table | None = None,
    broad: Size = WIDE,
    choosing: Choosing | None = None,
) -> str:
    """Return the chart of a `table`, drawn by `pictures`; '' for one without rows or chart.

    `among` has all rows where `table` has those that a reader selected: then it is said where
    these leave nothing to draw. It is drawn as wide as `broad`, and as wide as a telephone; the
    page's styles show one of both. `choosing` is the layer to outline, and where marks lead.
    """
    if table.chart is None or not (among or table).rows:
        return ""
    drawings: list[str] = []
    notes: tuple[str, ...] = ()
    for size, name in ((broad, "broad"), (NARROW, "narrow")):
        chart = await asyncio.to_thread(fitted, table, PAGE, size, among=among, choosing=choosing)
        notes = chart.notes
        if chart.spec is None:
            break
        try:
            svg = await pictures.draw(chart.spec, "svg")
        except CannotDraw as error:
            return f'<p class="soft">{escape(error)}</p>'
        # Ids of several drawings in one page are kept apart by their class.
        unique = f"{name}-{table.name.replace('_', '-')}"
        drawing = inlined(svg.decode(), f"Chart: {table.title or table.name}", unique)
        drawings.append(drawing.replace(f'class="drawing {unique}"', f'class="drawing {name}"', 1))
    if not drawings and among is None:
        return ""
    texts = "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
    return f"{''.join(drawings)}{texts}"
