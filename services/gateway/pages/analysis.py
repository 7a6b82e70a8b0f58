"""The page of one analysis: verdict, chart, table, caveats, source, columns, downloads. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mlscope.client.brief import caveat_lines
from mlscope.quantities import unit_of
from schemas.analysis import Column, Table
from schemas.status import EvaluationStatus
from services.gateway.pages.analyses import Card, Index, plain_title
from services.gateway.pages.forms import Choice, SearchForm
from services.gateway.pages.selection import (
    PAGE_ROWS,
    Selection,
    choices_of,
    layers_of,
    page_of,
    selected,
    with_page,
)
from services.gateway.pages.subjects import question_of
from services.gateway.pages.tables import (
    MAIN_COLUMNS,
    Grid,
    constant_columns,
    constant_text,
    grid_of,
    heads_in,
    kind_of,
    without_bounds,
)

CHART = "<!--chart-->"
"""Where the chart stands in the document: it is sent when it is drawn."""
_TABLE_FILES = (
    ("CSV", ".csv"),
    ("Parquet", ".parquet"),
    ("Arrow", ".arrow"),
    ("JSON", ""),
    ("Markdown", ".md"),
)
_PICTURE_FILES = (("SVG", ".svg"), ("PNG", ".png"), ("PDF", ".pdf"), ("Vega-Lite", ".json"))
LAYER_TABLES = frozenset(
    {
        "layers",
        "layer_latency",
        "layer_memory",
        "layer_counters",
        "layer_roofline",
        "layer_overheads",
        "cold_layers",
        "kernels_by_layer",
        "copies_by_layer",
        "gpu_and_rest",
        "roof_distance",
        "static_work",
    }
)
"""Analyses with a row, a bar or a dot for each layer, which a reader may choose."""
_NUMBERS = ("index", "layer", "node")
_LARGEST_FIRST = {"layers": "time", "layer_memory": "memory_bytes"}
"""Analyses that ask for the largest rows, and their columns; a click on the index sorts by it."""
_FEW_ROWS = 3
_JSON_BEGINS = ('{"', '["', "[{")
_LABELS = {"batch_size": "Batch size"}


@dataclass(frozen=True, slots=True)
class SortableHead:
    """A column's heading that sorts by it; `order` is its aria-sort, '' for another column."""

    text: str
    description: str
    kind: str
    address: str
    order: str


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """One analysis of an evaluation; `shown` has the rows of the page."""

    status: EvaluationStatus
    table: Table
    index: Index
    form: SearchForm
    heads: Sequence[SortableHead]
    shown: Grid
    alike: str
    matching: int
    selection: Selection
    #: of each shown row: the number of its layer, None for none
    layers: Sequence[int | None]
    #: the place of the column whose cells choose a layer, -1 for none
    layer_place: int
    template: ClassVar[str] = "analysis.html"
    chart: ClassVar[str] = CHART

    @property
    def title(self) -> str:
        """Number and title."""
        return f"{self.table.id} {plain_title(self.table)}".strip()

    @property
    def question(self) -> str:
        """The question that it answers."""
        return question_of(self.table.name)

    @property
    def chosen(self) -> str:
        """The layer that is chosen, in words; '' where none is."""
        if self.selection.layer is None:
            return ""
        columns = enumerate(self.table.columns)
        places = {column.name: place for place, column in columns if column.type == "text"}
        titles = [places[name] for name in ("layer_name", "name", "layer") if name in places]
        rows = zip(layers_of(self.table), self.table.rows, strict=True)
        called = [row for number, row in rows if number == self.selection.layer]
        if not called:
            return f"Layer {self.selection.layer} has no row here"
        name = called[0][titles[0]] if titles else ""
        return f"Layer {self.selection.layer}{f', {name},' if name else ''} is chosen"

    @property
    def without_layer(self) -> str:
        """The address of this page without the choice."""
        return self.selection.query(layer=None, page=1) or self.form.action

    @property
    def layer_tables(self) -> list[tuple[str, str]]:
        """The other analyses of layers with the same layer chosen: number and address."""
        return [
            (card.number or card.title, f"{card.address}?layer={self.selection.layer}")
            for card in self.index.cards
            if card.name in LAYER_TABLES and card.name != self.table.name
        ]

    def layer_address(self, row: int) -> str:
        """Return the address that chooses the layer of a shown `row`, '' for a row of none."""
        layer = self.layers[row]
        return "" if layer is None else f"{self.selection.query(layer=layer, page=1)}#chosen"

    @property
    def caveats(self) -> list[str]:
        """What weakens the verdict, each thing once."""
        return list(caveat_lines(self.table.caveats))

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Each column's name, unit and description."""
        return [(c.name, c.unit, c.description) for c in self.table.columns]

    @property
    def table_files(self) -> list[tuple[str, str]]:
        """Formats of the whole table and their addresses."""
        address = f"/api/evaluations/{self.status.evaluation}/tables/{self.table.name}"
        return [(name, f"{address}{suffix}") for name, suffix in _TABLE_FILES]

    @property
    def has_chart(self) -> bool:
        """Whether there is something to draw; a chart without rows has no files either."""
        return self.table.chart is not None and bool(self.table.rows)

    @property
    def picture_files(self) -> list[tuple[str, str]]:
        """Formats of the chart and their addresses, for the rows that are selected."""
        if not self.has_chart:
            return []
        address = f"/api/evaluations/{self.status.evaluation}/charts/{self.table.name}"
        query = self.selection.query(page=1, sort="")
        return [(name, f"{address}{suffix}{query}") for name, suffix in _PICTURE_FILES]

    @property
    def neighbours(self) -> tuple[Card | None, Card | None]:
        """The analyses before and after this one."""
        cards = self.index.cards
        places = [place for place, card in enumerate(cards) if card.name == self.table.name]
        if not places:
            return None, (cards[0] if cards else None)
        before = cards[places[0] - 1] if places[0] else None
        return before, (cards[places[0] + 1] if places[0] + 1 < len(cards) else None)

    @property
    def pages(self) -> list[tuple[str, str]]:
        """Links to the pages before and after this one."""
        last = -(-self.matching // PAGE_ROWS)
        page = self.selection.page
        around = [("Previous rows", page - 1), ("Next rows", page + 1)]
        around = [("First rows", 1) if page > 2 else ("", 0), *around]
        around += [("Last rows", last)] if page < last - 1 else []
        # The first page is named too where another would be opened for the chosen layer.
        first = "" if self.selection.layer is None else "&page=1"
        return [
            # An address without a query would stay on the page.
            (text, (self.selection.query(page=n) or self.form.action) + (first if n == 1 else ""))
            for text, n in around
            if 1 <= n <= last
        ]

    @property
    def count(self) -> str:
        """Which rows are shown, of how many."""
        every = len(self.table.rows)
        first = (self.selection.page - 1) * PAGE_ROWS
        matching = f"{self.matching}" if self.matching == every else f"{self.matching} of {every}"
        if not every:
            return "No rows"
        if not self.shown.rows:
            return f"No row of {every} matches"
        if self.matching <= PAGE_ROWS:
            return f"{matching} rows" if every != 1 else "1 row"
        return f"Rows {first + 1} to {first + len(self.shown.rows)} of {matching}"


def analysis_view(
    status: EvaluationStatus, table: Table, index: Index, selection: Selection
) -> AnalysisView:
    """Return the view of one analysis.

    `status` is its evaluation's, `table` has all rows, `index` all analyses of the evaluation;
    `selection` says which rows are shown.
    """
    largest = _LARGEST_FIRST.get(table.name, "")
    if not selection.sort and any(column.name == largest for column in table.columns):
        selection = replace(selection, sort=largest, is_descending=True)
    matching = selected(table, selection)
    selection = with_page(matching, selection)
    shown_rows = page_of(matching, selection.page)
    columns = _telling_first(table, without_bounds(table.columns))
    constant = constant_columns(table, columns) if len(table.rows) >= _FEW_ROWS else []
    shown_columns = [column for column in columns if column not in constant] or columns
    address = f"/evaluations/{status.evaluation}/analyses/{table.id or table.name}"
    choices = [
        Choice(name, _LABELS.get(name, name.capitalize()), selection.chosen_values[name], values)
        for name, values in choices_of(table).items()
    ]
    layer_fields = [] if selection.layer is None else [("layer", str(selection.layer))]
    places = [n for n, column in enumerate(shown_columns) if column.name in _NUMBERS]
    return AnalysisView(
        status=status,
        table=table,
        index=index,
        form=SearchForm(address, [], choices, layer_fields),
        heads=_sortable(shown_columns, selection),
        shown=grid_of(shown_rows, shown_columns),
        alike=constant_text(table, constant),
        matching=len(matching.rows),
        selection=selection,
        layers=layers_of(shown_rows),
        layer_place=places[0] if places and selection.layer_column else -1,
    )


def _telling_first(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Return columns in the order of a page: run and main ones first, texts in JSON last."""
    names = ["run", *MAIN_COLUMNS[table.name]] if table.name in MAIN_COLUMNS else []
    main = [column for name in names for column in columns if column.name == name]
    other_columns = [column for column in columns if column not in main]
    long = [column for column in other_columns if _has_json(table, column)]
    return [*main, *(column for column in other_columns if column not in long), *long]


def _has_json(table: Table, column: Column) -> bool:
    place = table.columns.index(column)
    return column.type == "text" and any(
        str(row[place] or "").startswith(_JSON_BEGINS) for row in table.rows[:PAGE_ROWS]
    )


def _sortable(columns: Sequence[Column], selection: Selection) -> list[SortableHead]:
    heads = []
    for column, text in zip(columns, heads_in(columns), strict=True):
        is_sorted = selection.sort == column.name
        # The largest rows are the interesting ones of a number that is no place.
        is_size = column.type in ("int", "float") and column.name not in _NUMBERS
        descends = not selection.is_descending if is_sorted else is_size
        heads.append(
            SortableHead(
                text=text,
                description=f"{column.description} ({column.unit})"
                if unit_of(column) not in ("", "1")
                else column.description,
                kind=kind_of(column),
                address=selection.query(sort=column.name, is_descending=descends, page=1)
                + "#table",
                order=("descending" if selection.is_descending else "ascending")
                if is_sorted
                else "",
            )
        )
    return heads
