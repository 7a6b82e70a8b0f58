"""The index of an evaluation's analyses: by subject, and why some are empty. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from schemas.analysis import Table
from schemas.status import EvaluationStatus
from services.gateway.pages.subjects import GROUPS, OTHERS, group_of, question_of

_ORDER = {name: place for place, name in enumerate(n for g in GROUPS.values() for n in g)}
"""The place of each analysis among all."""


@dataclass(frozen=True, slots=True)
class Card:
    """One analysis: its number ('' without one), title, question, verdict and address."""

    name: str
    number: str
    title: str
    question: str
    verdict: str
    address: str
    has_chart: bool
    rows: int


@dataclass(frozen=True, slots=True)
class Group:
    """The analyses of one subject; `anchor` is its id in the page."""

    title: str
    anchor: str
    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Empty:
    """Analyses that are empty for the same reason."""

    reason: str
    titles: Sequence[str]


@dataclass(frozen=True, slots=True)
class Index:
    """All analyses of an evaluation, by subject, and the empty ones by reason."""

    groups: Sequence[Group]
    empty: Sequence[Empty]

    @property
    def cards(self) -> list[Card]:
        """The cards of all groups, in the order of the page."""
        return [card for group in self.groups for card in group.cards]


@dataclass(frozen=True, slots=True)
class AnalysesView:
    """The page of the index; `note` says why there are no analyses, '' where there are."""

    status: EvaluationStatus
    index: Index
    note: str
    template: ClassVar[str] = "analyses.html"

    @property
    def title(self) -> str:
        """The document's title."""
        return f"Analyses of {self.status.model or self.status.evaluation}"


def analyses_view(
    status: EvaluationStatus, tables: Sequence[Table], totals: Mapping[str, int], note: str = ""
) -> AnalysesView:
    """Return the view of the index of an evaluation in `status`.

    `tables` may lack rows: `totals` has how many each has; `note` says why there are no tables.
    """
    return AnalysesView(status, index_of(status.evaluation, tables, totals), note)


def index_of(evaluation: str, tables: Sequence[Table], totals: Mapping[str, int]) -> Index:
    """Return the analyses of an `evaluation`: the `tables` with rows, and why others have none.

    `totals` has how many rows each has.
    """
    cards: dict[str, list[Card]] = {title: [] for title in (*GROUPS, OTHERS)}
    reasons: dict[str, list[str]] = {}
    for table in tables:
        count = totals.get(table.name, len(table.rows))
        if not count:
            reasons.setdefault(table.verdict, []).append(plain_title(table))
            continue
        cards[group_of(table.name)].append(card_of(evaluation, table, count))
    groups = [
        Group(title, title.lower(), sorted(inside, key=lambda card: _ORDER.get(card.name, 0)))
        for title, inside in cards.items()
        if inside
    ]
    return Index(groups, [Empty(reason, titles) for reason, titles in reasons.items()])


def card_of(evaluation: str, table: Table, rows: int) -> Card:
    """Return the card of a `table` of an `evaluation`, which has this number of `rows`."""
    return Card(
        name=table.name,
        number=table.id,
        title=plain_title(table),
        question=question_of(table.name),
        verdict=table.verdict,
        address=address_of(evaluation, table),
        has_chart=table.chart is not None,
        rows=rows,
    )


def address_of(evaluation: str, table: Table) -> str:
    """Return the page of an analysis: by its number, which is short, else by its name."""
    return f"/evaluations/{evaluation}/analyses/{table.id or table.name}"


def plain_title(table: Table) -> str:
    """Return a table's title without its number, which stands beside it."""
    return (table.title or table.name).removesuffix(f" ({table.id})")
