"""Requests of the gateway to the other services, over the bus."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache

from mlscope.bus.bus import Bus
from mlscope.client.asking import answer_as, answer_body, answer_in, ask_for, whole_tables
from mlscope.client.errors import (
    ClientError,
    CommandRefused,
    NoBroker,
    NoSuchTable,
    NotAnswering,
    OtherVersion,
)
from mlscope.client.prices import with_kept_prices
from mlscope.evaluation.fold import EvaluationRecord, fold
from mlscope.evaluation.status import status_of as status_of_record
from schemas.analysis import Compared, Predictions, Table, Tables
from schemas.encoding.codec import parse
from schemas.exploration import Explore, Explored
from schemas.manifest import ModelManifest
from schemas.price import PriceKept, SetPrice
from schemas.request import (
    Compare,
    ListEvaluations,
    Refused,
    ShowCatalog,
    ShowEvaluation,
    ShowPredictions,
    ShowTables,
)
from schemas.status import AgentStatus, Catalog, EvaluationList, EvaluationStatus, State
from schemas.subjects import story_of
from services.gateway.access.personal_bus import asker_on
from services.gateway.pages.home import MOST_SHOWN, Overview

_OPEN_STATES: tuple[State, ...] = ("running", "measured", "planned", "postponed", "requested")
_AGENTS = ShowCatalog(kind="agent")
_HISTORY = 200
"""How many evaluations back regressions are looked for."""
_PAGE_FACTS = 1000


async def status_of(bus: Bus, evaluation: str) -> EvaluationStatus:
    """Return an evaluation's status: from the scheduler, else folded from the log.

    Raises CommandRefused (unknown), NotAnswering.
    """
    try:
        return await ask_for(bus, ShowEvaluation(evaluation=evaluation), EvaluationStatus)
    except (NoBroker, OtherVersion):
        raise
    except NotAnswering:
        record = await _record_in_log(bus, evaluation)
    is_visible = asker_on(bus).may_see(record.requested_by, is_private=record.is_private)
    if not (record.is_known and is_visible):
        message = f"no evaluation {evaluation}; GET /api/evaluations lists all"
        raise CommandRefused(Refused(error="unknown", message=message, field="evaluation"))
    status = status_of_record(record)
    return status.model_copy(update={"unread_facts": bus.unread(evaluation)})


async def _record_in_log(bus: Bus, evaluation: str) -> EvaluationRecord:
    """Fold the log, a page at a time: an agent may publish any number of facts. Raises BusError."""
    record, after = EvaluationRecord(), 0
    while page := await bus.read(story_of(evaluation), after=after, at_most=_PAGE_FACTS):
        record = fold((recorded.fact for recorded in page), record)
        after = page[-1].sequence
    return record


async def evaluations(bus: Bus, command: ListEvaluations) -> EvaluationList:
    """Return the newest evaluations. Raises NotAnswering."""
    return await ask_for(bus, command, EvaluationList)


async def overview_of(bus: Bus) -> Overview:
    """Return what runs now, the newest evaluations and the agents. Raises NotAnswering."""
    history = ask_for(bus, ListEvaluations(limit=_HISTORY), EvaluationList)
    newest, fleet, (under_way, total) = await asyncio.gather(
        history, agents(bus), open_evaluations(bus)
    )
    return Overview(under_way, total - len(under_way), newest.evaluations, fleet)


async def open_evaluations(bus: Bus) -> tuple[list[EvaluationStatus], int]:
    """Return the evaluations under way with their runs, at most `MOST_SHOWN`, and their number.

    Raises NotAnswering.
    """
    oldest = ListEvaluations(limit=MOST_SHOWN, sort="oldest", predictions=True)
    lists = [oldest.model_copy(update={"state": state}) for state in _OPEN_STATES]
    answers = await asyncio.gather(*(ask_for(bus, command, EvaluationList) for command in lists))
    listed = [status for answer in answers for status in answer.evaluations]
    full = await asyncio.gather(
        *(status_of(bus, status.evaluation) for status in listed[:MOST_SHOWN])
    )
    total = sum(
        len(answer.evaluations) if answer.total is None else answer.total for answer in answers
    )
    return full, total


async def agents(bus: Bus) -> tuple[AgentStatus, ...]:
    """Return the agents that the registry knows, also those that are gone. Raises NotAnswering."""
    return _agents_in(await answer_body(bus, _AGENTS))


@lru_cache(maxsize=1)
def _agents_in(body: bytes) -> tuple[AgentStatus, ...]:
    """Return the agents of an answer; the same answer is read once: of 1,000 that takes 0.2 s."""
    return answer_as(Catalog, _AGENTS, answer_in(_AGENTS, body)).agents


async def models(bus: Bus, name: str = "") -> tuple[ModelManifest, ...]:
    """Return the models of the catalog, also hidden ones: all, or all versions of `name`.

    Raises CommandRefused, MalformedMessage, NotAnswering.
    """
    command = parse(ShowCatalog, {"kind": "model", "name": name})
    return (await ask_for(bus, command, Catalog)).models


async def whole_catalog(bus: Bus) -> Catalog:
    """Return all agents and manifests. Raises CommandRefused, NotAnswering."""
    return await ask_for(bus, ShowCatalog(), Catalog)


async def tables_of(bus: Bus, evaluation: str, *names: str) -> Tables:
    """Return complete tables: all, or the named ones. Raises CommandRefused, NotAnswering."""
    return await whole_tables(bus, evaluation, names)


async def condition_table(bus: Bus, status: EvaluationStatus) -> Table | None:
    """Return the table `conditions` of an evaluation in `status`, None where there is none."""
    if not status.tables:
        return None
    try:
        tables = (await tables_of(bus, status.evaluation, "conditions")).tables
    except ClientError:
        return None
    return next((table for table in tables if table.name == "conditions"), None)


async def explored(bus: Bus, command: Explore) -> Explored:
    """Return an exploration of many evaluations; in costs, kept prices count too.

    Raises CommandRefused, NotAnswering.
    """
    if command.table == "cost":
        command = await with_kept_prices(bus, command)
    return await ask_for(bus, command, Explored, timeout_s=30.0)


async def compared(bus: Bus, command: Compare) -> Compared:
    """Return the figures of several evaluations side by side; kept prices count too.

    Raises CommandRefused, NotAnswering.
    """
    command = await with_kept_prices(bus, command)
    return await ask_for(bus, command, Compared, timeout_s=60.0)


async def price_kept(bus: Bus, fields: Mapping[str, object]) -> PriceKept:
    """Keep what the `fields` of a `SetPrice` say, as whoever asks over `bus` wants it.

    Raises MalformedMessage, CommandRefused, NotAnswering.
    """
    return await ask_for(bus, parse(SetPrice, dict(fields)), PriceKept)


async def predictions_of(bus: Bus, command: ShowPredictions) -> Predictions:
    """Return as many answers of a model as one message holds.

    Raises CommandRefused, NotAnswering.
    """
    return await ask_for(bus, command, Predictions, timeout_s=60.0)


async def headings_of(bus: Bus, evaluation: str) -> Tables:
    """Return all tables with at most one row each, and how many rows they have.

    Raises CommandRefused, NotAnswering.
    """
    command = ShowTables(evaluation=evaluation, limit=1)
    return await ask_for(bus, command, Tables, timeout_s=60.0)


async def table_of(bus: Bus, evaluation: str, name: str) -> Table:
    """Return one table of an `evaluation` with all rows, by its `name` or number.

    It is asked for over `bus`. Raises NoSuchTable, CommandRefused, NotAnswering.
    """
    answer = await tables_of(bus, evaluation, name)
    for table in answer.tables:
        if name in (table.name, table.id):
            return table
    raise NoSuchTable(name, tuple(table.name for table in answer.tables))


async def some_tables_of(bus: Bus, evaluation: str, *names: str) -> Tables:
    """Return tables of these `names` with as many rows as one answer holds, enough for a page.

    `evaluation` is asked for over `bus`. Without names it is none. Raises CommandRefused,
    NotAnswering.
    """
    if not names:
        return Tables(evaluation=evaluation, tables=())
    command = ShowTables(evaluation=evaluation, tables=names)
    return await ask_for(bus, command, Tables, timeout_s=60.0)
