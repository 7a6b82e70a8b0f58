"""The pages that explore many evaluations: all charts, and each with its table. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import urlencode

from mlscope.client.brief import caveat_lines
from schemas.analysis import Table
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.exploration import Explore, Explored
from services.gateway.pages.analysis import CHART, SortableHead
from services.gateway.pages.forms import Choice, SearchForm
from services.gateway.pages.selection import PAGE_ROWS, Selection, page_of, selected
from services.gateway.pages.tables import Grid, differs, grid_of, heads_in, without_bounds

CONSTRAINTS = ("task", "model", "framework", "agent", "device", "scenario")
"""What narrows the loads, as parameters of an address."""
HISTORY = "history"
_PRICE = "price."
SORTING = ("sort", "order", "page")
"""What sorts a table and chooses its page, as parameters of an address."""
_FILES = (("CSV", ".csv"), ("Parquet", ".parquet"), ("Arrow", ".arrow"), ("JSON", ""))
_PICTURES = (("SVG", ".svg"), ("PNG", ".png"), ("PDF", ".pdf"), ("Vega-Lite", ".json"))
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy_latency": "Which model is the most accurate for the time it takes?",
        "accuracy_throughput": "Which model is the most accurate at full throughput?",
        "batch_speedup": "What do larger batches gain, and which is best?",
        "systems": "How fast is a model on each system?",
        "gpu_and_cpu": "How much faster is a GPU?",
        "frameworks": "Which framework runs a model fastest on the same system?",
        "cost": "What do a million inferences cost?",
        "cold_start": "How much longer does the first prediction take?",
        HISTORY: "Did a load become slower?",
    }
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What an address asks for: constraints, and prices as they were typed."""

    constraints: Mapping[str, str]
    prices: Mapping[str, str] = field(default_factory=dict)

    def query(self, **changes: str) -> str:
        """Return the query of these terms with changed constraints or further parameters."""
        pairs = {**self.constraints, **{f"{_PRICE}{a}": p for a, p in self.prices.items()}}
        pairs = {name: value for name, value in {**pairs, **changes}.items() if value}
        return f"?{urlencode(pairs)}" if pairs else ""

    def command(self, table: str = "") -> Explore:
        """Return the command for a table. Raises MalformedMessage for what is no price."""
        prices: dict[str, float] = {}
        for agent, text in self.prices.items():
            try:
                prices[agent] = float(text)
            except ValueError:
                expected = "dollars an hour, such as 3.06"
                raise MalformedMessage(
                    field=f"{_PRICE}{agent}", found=text[:80], expected=expected
                ) from None
        return parse(Explore, {**self.constraints, "table": table, "prices": prices})

    @property
    def is_narrowed(self) -> bool:
        """Whether they leave loads out."""
        return any(self.constraints.values())


def terms_of(query: Iterable[tuple[str, str]], *further: str) -> Terms:
    """Return the terms in the parameters of an address; `further` ones are allowed too.

    A price is `price.AGENT=DOLLARS`, or `price=AGENT=DOLLARS` as in a comparison. Raises
    MalformedMessage, which names an unknown parameter.
    """
    constraints: dict[str, str] = {}
    prices: dict[str, str] = {}
    for name, value in query:
        if name in CONSTRAINTS:
            constraints[name] = value.strip()
        elif name.startswith(_PRICE):
            prices[name.removeprefix(_PRICE)] = value.strip()
        elif name == "price":
            agent, _, dollars = value.partition("=")
            prices[agent] = dollars
        elif name not in further:
            expected = f"one of {', '.join((*CONSTRAINTS, 'price', *further))}"
            raise MalformedMessage(field=name, found=value[:80], expected=expected)
    return Terms(constraints, {agent: text for agent, text in prices.items() if text})


def emptiness_of(table: Table, terms: Terms, explored: Explored) -> str:
    """Return why a `table` of `explored` has no rows: none match the `terms`, or its verdict."""
    if terms.is_narrowed and not explored.total_loads:
        return "Nothing matches this filter."
    return table.verdict


@dataclass(frozen=True, slots=True)
class Part:
    """An exploration on the page of all: its place for what is sent when it is drawn."""

    name: str
    title: str
    address: str

    @property
    def question(self) -> str:
        """The question that it answers."""
        return QUESTIONS.get(self.name, "")

    @property
    def marker(self) -> str:
        """What stands in the document for its verdict and chart."""
        return f"<!--exploration {self.name}-->"


def _form(action: str, terms: Terms, explored: Explored) -> SearchForm:
    choices = []
    for name in CONSTRAINTS:
        chosen, values = terms.constraints.get(name, ""), explored.choices.get(name, ())
        if chosen or values:
            # A value that is asked for and that no load has can be chosen too.
            listed = [*values] if chosen in ("", *values) else [chosen, *values]
            choices.append(Choice(name, name.capitalize(), chosen, listed))
    prices = [(f"{_PRICE}{agent}", price) for agent, price in terms.prices.items()]
    return SearchForm(action, [], choices, prices)


@dataclass(frozen=True, slots=True)
class ExploreView:
    """The page of all explorations."""

    terms: Terms
    explored: Explored
    template: ClassVar[str] = "explore.html"
    title: ClassVar[str] = "Explore"

    @property
    def form(self) -> SearchForm:
        """The constraints to choose."""
        return _form("/explore", self.terms, self.explored)

    @property
    def agents(self) -> list[tuple[str, str]]:
        """The agents and their prices as typed."""
        agents = self.explored.choices.get("agent", ())
        return [(agent, self.terms.prices.get(agent, "")) for agent in agents]

    @property
    def parts(self) -> list[Part]:
        """The explorations; the history is one model's."""
        query = self.terms.query()
        return [
            Part(name, title, f"/explore/{name}{query}")
            for name, title in self.explored.tables
            if name != HISTORY or self.terms.constraints.get("model")
        ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever measured."""
        return not any(self.explored.choices.values())


@dataclass(frozen=True, slots=True)
class ExplorationView:
    """One exploration: verdict, chart, table, downloads; `shown` has the rows of the page."""

    terms: Terms
    explored: Explored
    table: Table
    selection: Selection
    shown: Grid
    heads: Sequence[SortableHead]
    matching: int
    choices: Explored
    template: ClassVar[str] = "exploration.html"
    chart: ClassVar[str] = CHART

    @property
    def title(self) -> str:
        """Its title, with the model it is about."""
        model = self.terms.constraints.get("model", "")
        return f"{self.table.title} of {model}" if model else self.table.title

    @property
    def question(self) -> str:
        """The question that it answers."""
        return QUESTIONS.get(self.table.name, "")

    @property
    def form(self) -> SearchForm:
        """The constraints to choose."""
        return _form(f"/explore/{self.table.name}", self.terms, self.choices)

    @property
    def agents(self) -> list[tuple[str, str]]:
        """The agents and their prices as typed, for what costs are about."""
        if self.table.name != "cost":
            return []
        agents = self.choices.choices.get("agent", ())
        return [(agent, self.terms.prices.get(agent, "")) for agent in agents]

    @property
    def evaluations(self) -> list[str]:
        """The ids in each row that is shown, joined by commas; no rows where a table has none."""
        places = [
            place
            for place, column in enumerate(self.table.columns)
            if column.name.endswith("evaluation")
        ]
        rows = page_of(selected(self.table, self.selection), self.selection.page).rows
        return [",".join(str(row[place]) for place in places) for row in rows if places]

    @property
    def is_drawn(self) -> bool:
        """Whether it has a chart: a history of many models at once is no picture."""
        has_rows = self.table.chart is not None and bool(self.table.rows)
        return has_rows and (
            self.table.name != HISTORY or bool(self.terms.constraints.get("model"))
        )

    @property
    def tabs(self) -> list[tuple[str, str, bool]]:
        """Title and address of each exploration, and whether it is this one."""
        query = self.terms.query()
        return [
            (title, f"/explore/{name}{query}", name == self.table.name)
            for name, title in self.explored.tables
        ]

    @property
    def all_charts(self) -> str:
        """The address of all explorations of the same loads."""
        return f"/explore{self.terms.query()}"

    @property
    def emptiness(self) -> str:
        """Why it has no rows, where it has none."""
        return emptiness_of(self.table, self.terms, self.explored)

    @property
    def caveats(self) -> list[str]:
        """What weakens the verdict, each thing once."""
        return list(caveat_lines(self.table.caveats))

    @property
    def picture_files(self) -> list[tuple[str, str]]:
        """Formats of the chart and their addresses."""
        address, query = f"/api/explore/charts/{self.table.name}", self.terms.query()
        return [(name, f"{address}{suffix}{query}") for name, suffix in _PICTURES]

    @property
    def table_files(self) -> list[tuple[str, str]]:
        """Formats of the whole table and their addresses."""
        address, query = f"/api/explore/tables/{self.table.name}", self.terms.query()
        return [(name, f"{address}{suffix}{query}") for name, suffix in _FILES]

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Each column's name, unit and description."""
        return [(c.name, c.unit, c.description) for c in self.table.columns]

    @property
    def count(self) -> str:
        """Which rows are shown, of how many, and of how many loads."""
        first = (self.selection.page - 1) * PAGE_ROWS
        last = first + len(self.shown.rows)
        rows = f"Rows {first + 1} to {last} of {self.matching}" if self.shown.rows else "No rows"
        return f"{rows}, from {self.explored.loads} of {self.explored.total_loads} loads"

    @property
    def pages(self) -> list[tuple[str, str]]:
        """Links to the pages before and after this one."""
        last, page = -(-self.matching // PAGE_ROWS), self.selection.page
        around = (("Previous rows", page - 1), ("Next rows", page + 1))
        return [
            (text, _address(self.table, self.terms, replace(self.selection, page=number)))
            for text, number in around
            if 1 <= number <= last
        ]


def _address(table: Table, terms: Terms, selection: Selection) -> str:
    sorting = {"sort": selection.sort, "order": "descending" if selection.is_descending else ""}
    page = {"page": str(selection.page) if selection.page > 1 else ""}
    query = terms.query(**(sorting if selection.sort else {}), **page)
    return f"/explore/{table.name}{query}#table"


def exploration_view(
    terms: Terms, explored: Explored, choices: Explored, query: Mapping[str, str]
) -> ExplorationView:
    """Return the page of the table that was `explored` under `terms`.

    `choices` has the values of the constraints; `query` says how the rows are sorted, and which
    page of them is shown.
    """
    table = explored.table
    if table is None:
        raise LookupError("an answer to a request for a table has one")
    names = {column.name for column in table.columns}
    number = query.get("page", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    selection = Selection(
        chosen_values={},
        sort=sort if (sort := query.get("sort", "")) in names else "",
        is_descending=query.get("order", "") == "descending",
        page=max(1, int(number)) if is_number else 1,
    )
    matching = selected(table, selection)
    # What is equal in every row stands in the constraints, or says nothing; a note is for charts.
    columns = [
        column
        for column in without_bounds(table.columns)
        if column.name != "note"
        and (len(table.rows) < 2 or differs(table, column) or column.name in ("model", "subject"))
    ]
    heads = [
        SortableHead(text, column.description, *_head(table, terms, selection, column.name, kind))
        for column, text in zip(columns, heads_in(columns), strict=True)
        for kind in ["number" if column.type in ("int", "float") else ""]
    ]
    return ExplorationView(
        terms=terms,
        explored=explored,
        table=table,
        selection=selection,
        shown=grid_of(page_of(matching, selection.page), columns),
        heads=heads,
        matching=len(matching.rows),
        choices=choices,
    )


def _head(
    table: Table, terms: Terms, selection: Selection, column: str, kind: str
) -> tuple[str, str, str]:
    """Return class, address and order of a column's heading."""
    is_sorted = selection.sort == column
    descends = not selection.is_descending if is_sorted else bool(kind)
    following = replace(selection, sort=column, is_descending=descends, page=1)
    order = "descending" if selection.is_descending else "ascending"
    return kind, _address(table, terms, following), order if is_sorted else ""
