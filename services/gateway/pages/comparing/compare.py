"""The page that compares evaluations: each has a letter, the first is the base. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlencode

from schemas.analysis import Compared, Table, Tables
from schemas.request import Compare
from schemas.status import EvaluationStatus
from services.gateway.pages.comparing.conditions import Conditions, conditions_of
from services.gateway.pages.comparing.loads import LoadRow, load_rows
from services.gateway.pages.comparing.standings import Standing, standings_of
from services.gateway.pages.evaluations import EvaluationRow
from services.gateway.pages.tables import ALL_IN_FILES, Section, tables_view

MOST_ROWS = 25
"""Rows of a table that the page shows; its files have all."""
_FILES = (("CSV", ".csv"), ("JSON", ""), ("Parquet", ".parquet"), ("Arrow", ".arrow"))
_FIRST = ("regressions", "layer_changes", "kernel_changes", "systems", "throughput", "speedup")
"""The order of the tables in the page; others follow."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One of the evaluations: its letter, and addresses that change the comparison."""

    letter: str
    status: EvaluationStatus
    is_base: bool
    as_base: str
    without: str
    #: where it is faster or slower than the base; empty until that is known
    standings: Sequence[Standing] = ()

    @property
    def place(self) -> str:
        """The framework, device and agents."""
        parts = (self.status.framework, self.status.device, ", ".join(self.status.agents))
        return " · ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Part:
    """A table with its chart as HTML that the page may contain as it is, '' without one."""

    section: Section
    chart: str = ""


@dataclass(frozen=True)
class CompareView:
    """A comparison; without `rivals` enough, `choices` are evaluations to pick from."""

    rivals: Sequence[Rival]
    terms: Mapping[str, str]
    conditions: Conditions
    loads: Sequence[LoadRow] = ()
    parts: Sequence[Part] = ()
    caveats: Sequence[str] = ()
    note: str = ""
    #: the address of the report, '' before there is one
    report: str = ""
    choices: Sequence[EvaluationRow] = ()
    template: ClassVar[str] = "compare.html"

    @property
    def title(self) -> str:
        """The document's title."""
        names = dict.fromkeys(rival.status.model for rival in self.rivals)
        return f"Compare {', '.join(filter(None, names))}".strip()

    @property
    def ids(self) -> list[str]:
        """The evaluations' ids."""
        return [rival.status.evaluation for rival in self.rivals]

    @property
    def has_traces(self) -> bool:
        """Whether the first two are analyzed and have spans, so that both can be drawn."""
        first = [rival.status for rival in self.rivals[:2]]
        return len(first) == 2 and all(
            status.tables and any(run.spans for run in status.runs) for status in first
        )

    @property
    def agents(self) -> list[str]:
        """The agents, whose prices may be given."""
        return sorted({agent for rival in self.rivals for agent in rival.status.agents})

    @property
    def add(self) -> str:
        """The address to pick further evaluations at."""
        return address_of(self.ids, self.terms, pick="yes")


def letter_of(place: int) -> str:
    """Return A to Z, then A2 to Z2 and so on."""
    turn, place = divmod(place, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(turn + 1) if turn else "")


def letters_of(statuses: Sequence[EvaluationStatus]) -> dict[str, str]:
    """Return the letters of evaluations in their order, by their ids."""
    return {status.evaluation: letter_of(place) for place, status in enumerate(statuses)}


def address_of(ids: Sequence[str], terms: Mapping[str, str], **further: str) -> str:
    """Return the address of a comparison of evaluations under `terms`."""
    query = {name: value for name, value in {**terms, **further}.items() if value}
    runs = ",".join(ids)
    return f"/compare?runs={runs}&{urlencode(query)}" if query else f"/compare?runs={runs}"


def rivals_of(
    statuses: Sequence[EvaluationStatus],
    terms: Mapping[str, str],
    standings: Mapping[str, Sequence[Standing]] = MappingProxyType({}),
) -> list[Rival]:
    """Return the evaluations of `statuses` with their letters and `standings`, the base first.

    Their links keep the `terms` of the comparison.
    """
    ids = [status.evaluation for status in statuses]
    unpaired = [Standing("no load in common with the base", "")] if standings else []
    return [
        Rival(
            letter=letter_of(place),
            status=status,
            is_base=place == 0,
            as_base=address_of(
                [status.evaluation, *(name for name in ids if name != status.evaluation)], terms
            ),
            without=address_of([name for name in ids if name != status.evaluation], terms),
            standings=standings.get(status.evaluation, unpaired if place and status.tables else ()),
        )
        for place, status in enumerate(statuses)
    ]


def named(table: Table, letters: Mapping[str, str]) -> Table:
    """Return a table whose evaluations have their letters instead of their ids."""

    def text_of(value: Any) -> Any:
        return letters.get(value, value) if isinstance(value, str) else value

    def lettered(text: str) -> str:
        for name, letter in letters.items():
            text = text.replace(name, letter)
        return text

    rows = tuple(tuple(text_of(value) for value in row) for row in table.rows)
    caveats = tuple(lettered(caveat) for caveat in table.caveats)
    return table.model_copy(
        update={"rows": rows, "verdict": lettered(table.verdict), "caveats": caveats}
    )


_CHART_NAMES: Mapping[str, str] = MappingProxyType({"systems": "agent", "accuracy": "model"})
"""By table, the column that names what its chart draws."""


def named_by_letter(table: Table) -> Table:
    """Return a table for its chart: what it draws is named with the evaluation's letter."""
    names = [column.name for column in table.columns]
    column = _CHART_NAMES.get(table.name, "")
    if column not in names or "evaluation" not in names:
        return table
    place, letter = names.index(column), names.index("evaluation")
    rows = tuple(
        (*row[:place], f"{row[letter]} {row[place]}", *row[place + 1 :]) for row in table.rows
    )
    return table.model_copy(update={"rows": rows})


def ordered(tables: Sequence[Table]) -> list[Table]:
    """Return the tables in the order of the page, those without rows last."""
    places = {name: place for place, name in enumerate(_FIRST)}
    return sorted(tables, key=lambda table: (not table.rows, places.get(table.name, len(places))))


def sections_of(
    compared: Compared,
    letters: Mapping[str, str],
    *,
    query: str = "",
    most_rows: int = MOST_ROWS,
    elsewhere: str = ALL_IN_FILES,
) -> tuple[list[Section], Sequence[str]]:
    """Return the tables that were `compared` as sections, and the caveats that they share.

    `letters` are those of the evaluations; `query` asks REST for the same comparison. A section
    has `most_rows` rows; where further ones are `elsewhere` says.
    """
    tables = [named(table, letters) for table in ordered(compared.tables)]
    cut = tuple(table.model_copy(update={"rows": table.rows[:most_rows]}) for table in tables)
    totals = {table.name: len(table.rows) for table in tables}
    view = tables_view(Tables(evaluation=compared.first, tables=cut, total_rows=totals), elsewhere)
    sections = []
    for section in view.sections:
        files = [(n, f"/api/compare/tables/{section.name}{end}?{query}") for n, end in _FILES]
        sections.append(replace(section, files=files if section.grid else []))
    return sections, view.caveats


def evaluations_of(command: Compare) -> tuple[str, ...]:
    """Return the evaluations that a comparison of figures names, the base first."""
    return command.first, command.second, *command.others


def query_of(command: Compare) -> str:
    """Return the parameters of `/api/compare` that ask for a comparison."""
    pairs = [("evaluation", name) for name in evaluations_of(command)]
    pairs += [("price", f"{agent}={dollars!r}") for agent, dollars in command.prices.items()]
    for name in ("most_latency_ns", "most_cost", "least_accuracy"):
        if (value := getattr(command, name)) is not None:
            pairs.append((name, f"{value!r}"))
    return urlencode(pairs)


def compare_view(
    statuses: Sequence[EvaluationStatus], terms: Mapping[str, str], **further: Any
) -> CompareView:
    """Return the page that compares evaluations under `terms`; `further` are its other fields.

    Among them `tables` are the conditions of each, `compared` the tables that compare them.
    """
    conditions = further.pop("tables", [])
    compared = {table.name: table for table in further.pop("compared", ())}
    return CompareView(
        rivals=rivals_of(statuses, terms, standings_of(compared.get("regressions"))),
        terms=terms,
        conditions=conditions_of(conditions) if conditions else Conditions([], [], []),
        loads=load_rows(statuses, compared) if len(statuses) > 1 else [],
        **further,
    )
