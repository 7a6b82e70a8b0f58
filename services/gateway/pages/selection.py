"""Which rows of a table a page shows, in which order: from the query of its address. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from schemas.analysis import Table

PAGE_ROWS = 50
FILTERS = ("run", "batch_size", "level", "agent")
"""Columns by whose values rows can be selected."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The values chosen of some columns, the column to sort by, and the page, from 1."""

    chosen_values: Mapping[str, str]
    sort: str = ""
    is_descending: bool = False
    page: int = 1
    #: the number of the layer that is chosen, in every table; None for none
    layer: int | None = None
    #: the column of these numbers, '' in a table without layers
    layer_column: str = ""
    #: whether the address names the page
    has_page: bool = False

    def query(self, **changes: Any) -> str:
        """Return the query of an address for this selection with `changes` of its fields."""
        changed = replace(self, **changes)
        pairs = {name: value for name, value in changed.chosen_values.items() if value}
        if changed.sort:
            pairs["sort"] = changed.sort
            pairs |= {"order": "descending"} if changed.is_descending else {}
        if changed.layer is not None:
            pairs["layer"] = str(changed.layer)
        if changed.page > 1:
            pairs["page"] = str(changed.page)
        return f"?{urlencode(pairs)}" if pairs else ""


def selection_of(query: Mapping[str, str], table: Table) -> Selection:
    """Return the selection that a `query` makes of a `table`; what it lacks is ignored."""
    names = {column.name for column in table.columns}
    texts = [query.get(name, "") for name in ("page", "layer")]
    are_numbers = (text.isascii() and text.isdigit() and len(text) < 10 for text in texts)
    page, layer = (
        int(text) if is_number else None for text, is_number in zip(texts, are_numbers, strict=True)
    )
    sort = query.get("sort", "")
    return Selection(
        chosen_values={name: query.get(name, "") for name in FILTERS if name in names},
        sort=sort if sort in names else "",
        is_descending=query.get("order", "") == "descending",
        page=max(1, page or 1),
        layer=layer,
        layer_column=layer_column(table),
        has_page=page is not None,
    )


def layer_column(table: Table) -> str:
    """Return the column of a `table` with the framework's number of a layer, '' without one."""
    names = {column.name for column in table.columns if column.type == "int"}
    return next((name for name in ("node", "layer") if name in names), "")


def layers_of(table: Table) -> list[int | None]:
    """Return the number of the layer of each row of a `table`, None for a row of none."""
    column = layer_column(table)
    places = [place for place, candidate in enumerate(table.columns) if candidate.name == column]
    numbers = [row[places[0]] if places else None for row in table.rows]
    return [number if isinstance(number, int) and number >= 0 else None for number in numbers]


def choices_of(table: Table) -> dict[str, list[str]]:
    """Return the values of each column to filter by that has several, in the table's order."""
    choices = {}
    for position, column in enumerate(table.columns):
        if column.name in FILTERS:
            values = list(dict.fromkeys(str(row[position]) for row in table.rows))
            if len(values) > 1:
                choices[column.name] = values
    return choices


def selected(table: Table, selection: Selection) -> Table:
    """Return a table with the rows that a selection wants, sorted; all pages of them."""
    places = {column.name: position for position, column in enumerate(table.columns)}
    rows = [
        row
        for row in table.rows
        if all(
            not text or str(row[places[name]]) == text
            for name, text in selection.chosen_values.items()
        )
    ]
    if selection.sort:
        place = places[selection.sort]
        valued = [row for row in rows if row[place] is not None]
        valued.sort(key=lambda row: row[place], reverse=selection.is_descending)
        rows = [*valued, *(row for row in rows if row[place] is None)]
    return table.model_copy(update={"rows": tuple(rows)})


def with_page(table: Table, selection: Selection) -> Selection:
    """Return a `selection` with the page of the chosen layer, where the address names none.

    `table` has the rows of all pages.
    """
    layers = layers_of(table)
    if selection.has_page or selection.layer is None or selection.layer not in layers:
        return selection
    return replace(selection, page=layers.index(selection.layer) // PAGE_ROWS + 1)


def page_of(table: Table, page: int) -> Table:
    """Return a table with the rows of one `page`, from 1."""
    first = (page - 1) * PAGE_ROWS
    return table.model_copy(update={"rows": table.rows[first : first + PAGE_ROWS]})
