"""The page with the list of evaluations: searched, sorted, in pages. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, get_args
from urllib.parse import urlencode

from schemas.request import ListOrder
from schemas.status import EvaluationList, EvaluationStatus, State
from services.gateway.pages.headlines import BestFigures, best_figures

PAGE_SIZE = 50
_MOST_ROWS = 1000

_HEADS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Model": ("model",),
        "State": ("state",),
        "Noise": ("noise",),
        "Load": (),
        "Latency": ("latency",),
        "Samples/s": ("throughput",),
        "Agents": (),
        "Requested": ("newest", "oldest"),
    }
)
"""Heading and orders of each column; a second click on a heading asks for the second order."""
_DIRECTIONS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("oldest", "model", "state", "latency", "noise"), "ascending")
)
_OWN = ("search", "state", "predictions", "sort", "limit", "page")


@dataclass(frozen=True, slots=True)
class Search:
    """What a list asks for; `filters` are exact ones from the address, such as `model=tiny`."""

    search: str = ""
    state: str = ""
    #: "true": also evaluations that only answered files
    predictions: str = ""
    sort: str = "newest"
    limit: int = PAGE_SIZE
    page: int = 1
    filters: tuple[tuple[str, str], ...] = ()

    def address(self, **changes: Any) -> str:
        """Return the address of this list with changed parameters."""
        own = {name: changes.get(name, getattr(self, name)) for name in _OWN}
        defaults = {"sort": "newest", "limit": PAGE_SIZE, "page": 1}
        query = [
            (name, value) for name, value in own.items() if value and value != defaults.get(name)
        ]
        query += changes.get("filters", self.filters)
        return f"/evaluations?{urlencode(query)}" if query else "/evaluations"

    def without(self, name: str, value: str) -> str:
        """Return the address of this list without one of its filters."""
        filters = tuple(pair for pair in self.filters if pair != (name, value))
        return self.address(filters=filters, page=1)

    @property
    def is_narrowed(self) -> bool:
        """Whether it leaves evaluations out."""
        return bool(self.search or self.state or self.filters)


def search_of(query: Sequence[tuple[str, str]]) -> Search:
    """Return the list that an address asks for; what is not understood is left at its default."""
    own = dict(query)
    sort = own.get("sort", "")
    return Search(
        search=own.get("search", "").strip(),
        state=own.get("state", ""),
        predictions="true" if own.get("predictions") == "true" else "",
        sort=sort if sort in get_args(ListOrder) else "newest",
        limit=min(_number(own.get("limit", ""), PAGE_SIZE), _MOST_ROWS),
        page=_number(own.get("page", ""), 1),
        filters=tuple(
            (name, value) for name, value in query if name not in (*_OWN, "offset") and value
        ),
    )


def _number(text: str, default: int) -> int:
    """Return a positive number of at most five digits, `default` for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    return int(text) or default if is_number else default


@dataclass(frozen=True, slots=True)
class Head:
    """A column's heading: the address of the list sorted by it, '' if it is not sortable."""

    name: str
    address: str
    order: str


PLAIN_HEADS = tuple(Head(name, "", "") for name in _HEADS)
"""The headings of a list that is not sorted."""


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """An evaluation in the list, and the figures of its loads."""

    status: EvaluationStatus
    best: BestFigures

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"/evaluations/{self.status.evaluation}"

    @property
    def place(self) -> str:
        """Framework and device."""
        return " on ".join(filter(None, (self.status.framework, self.status.device)))

    @property
    def load(self) -> str:
        """The scenarios that were asked for, '' where the request is not known."""
        return ", ".join(self.status.extent.scenarios) if self.status.extent else ""

    @property
    def extent(self) -> str:
        """The batch sizes and levels that were asked for, in short."""
        extent = self.status.extent
        if extent is None or not extent.batch_sizes:
            return ""
        sizes = extent.batch_sizes
        batch = f"{min(sizes)} … {max(sizes)}" if len(sizes) > 2 else ", ".join(map(str, sizes))
        return f"batch {batch} · {', '.join(extent.levels)}"

    @property
    def noise(self) -> str:
        """Whether a load's run has a caveat about noise, '' before the analysis."""
        headlines = self.status.headlines
        is_noisy = any(headline.is_noisy for headline in headlines)
        return ("noisy" if is_noisy else "quiet") if headlines else ""


@dataclass(frozen=True, slots=True)
class EvaluationsView:
    """A page of the evaluations that match a search; `can_compare` if a page compares them."""

    rows: Sequence[EvaluationRow]
    search: Search
    total: int
    can_compare: bool
    can_start: bool
    template: ClassVar[str] = "evaluations.html"
    title: ClassVar[str] = "Evaluations"
    states: ClassVar[Sequence[str]] = get_args(State)

    @property
    def heads(self) -> list[Head]:
        """The headings of the columns."""
        heads = []
        for name, orders in _HEADS.items():
            if not orders:
                heads.append(Head(name, "", ""))
                continue
            is_current = self.search.sort in orders
            following = orders[-1] if self.search.sort == orders[0] else orders[0]
            order = _DIRECTIONS.get(self.search.sort, "descending") if is_current else ""
            heads.append(Head(name, self.search.address(sort=following, page=1), order))
        return heads

    @property
    def position(self) -> str:
        """Which evaluations the page shows, of how many."""
        first = (self.search.page - 1) * self.search.limit + 1
        return f"{first} to {first + len(self.rows) - 1} of {self.total}"

    @property
    def links(self) -> list[tuple[str, str]]:
        """Names and addresses of the pages before and after this one."""
        last_page = -(-self.total // self.search.limit)
        neighbours = (("Previous", self.search.page - 1), ("Next", self.search.page + 1))
        return [
            (name, self.search.address(page=number))
            for name, number in neighbours
            if 1 <= number <= last_page
        ]

    @property
    def remedies(self) -> list[tuple[str, str]]:
        """What to change when nothing matches: names of links, and their addresses."""
        search = self.search
        remedies = [
            (f"search for “{value}” in every field", Search(search=value).address())
            for name, value in search.filters
            if name in ("model", "framework", "agent", "label")
        ]
        if search.page > 1:
            remedies.insert(0, ("go to the first page", search.address(page=1)))
        if search.state and (search.search or search.filters):
            remedies.append(("ask for any state", search.address(state="", page=1)))
        if len(terms := search.search.split()) > 1:
            remedies.append(
                (f"search for “{terms[0]}” alone", search.address(search=terms[0], page=1))
            )
        return [*remedies, ("show all evaluations", "/evaluations")]


def evaluation_rows(evaluations: Iterable[EvaluationStatus]) -> list[EvaluationRow]:
    """Return evaluations as rows of a list."""
    return [EvaluationRow(status, best_figures(status.headlines)) for status in evaluations]


def evaluations_view(
    answer: EvaluationList, search: Search, *, can_compare: bool = False, can_start: bool = False
) -> EvaluationsView:
    """Return the view of the evaluations in `answer`, which is a page of what `search` asks for.

    `can_compare`: whether there is a page that compares them; `can_start`: one that starts them.
    """
    rows = evaluation_rows(answer.evaluations)
    total = len(rows) if answer.total is None else answer.total
    return EvaluationsView(rows, search, total, can_compare, can_start)
