"""What the gateway asks of the other services, over the bus."""

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for, whole_tables
from mlscope.client.errors import CommandRefused, NotAnswering
from mlscope.client.story import evolve, unheard
from schemas.analysis import Tables
from schemas.manifest import ModelManifest
from schemas.request import ListEvaluations, Refused, ShowCatalog, ShowEvaluation, ShowTables
from schemas.status import Catalog, EvaluationList, EvaluationStatus
from schemas.subjects import story_of


async def status_of(bus: Bus, evaluation: str) -> EvaluationStatus:
    """Return where an evaluation is: the scheduler's word, or the log's while there is none.

    Raises CommandRefused (unknown), NotAnswering.
    """
    try:
        return await ask_for(bus, ShowEvaluation(evaluation=evaluation), EvaluationStatus)
    except NotAnswering:
        return await _told_by_log(bus, evaluation)


async def _told_by_log(bus: Bus, evaluation: str) -> EvaluationStatus:
    status = unheard(evaluation)
    story = await bus.read(story_of(evaluation))
    if not story:
        message = f"no evaluation {evaluation}; GET /api/evaluations lists those there are"
        raise CommandRefused(Refused(error="unknown", message=message, field="evaluation"))
    for recorded in story:
        status = evolve(status, recorded.fact)
    return status


async def evaluations(bus: Bus, command: ListEvaluations) -> EvaluationList:
    """Return the newest evaluations. Raises NotAnswering."""
    return await ask_for(bus, command, EvaluationList)


async def models(bus: Bus, name: str = "") -> tuple[ModelManifest, ...]:
    """Return the models of the catalog, hidden ones too: all, or every version of one.

    Raises CommandRefused, NotAnswering.
    """
    return (await ask_for(bus, ShowCatalog(kind="model", name=name), Catalog)).models


async def tables_of(bus: Bus, evaluation: str, *names: str) -> Tables:
    """Return tables, all or those named, whole. Raises CommandRefused, NotAnswering."""
    return await whole_tables(bus, evaluation, names)


async def first_rows_of(bus: Bus, evaluation: str) -> Tables:
    """Return all tables with as many rows as one answer holds: enough for a page to read.

    Raises CommandRefused, NotAnswering.
    """
    return await ask_for(bus, ShowTables(evaluation=evaluation), Tables, timeout_s=60.0)
