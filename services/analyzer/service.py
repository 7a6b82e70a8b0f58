"""The analyzer as a service: an evaluation measured, its tables made; and the tables, asked for."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import ParamSpec, Protocol, TypeVar, cast

from mlscope.bus.bus import Answerer, Asked, Bus, Delivery, ServiceFacts
from mlscope.bus.errors import BusError
from mlscope.bus.keeping import keeping
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.analysis import AnalysisCompleted, AnalysisFailed, Tables
from schemas.codec import decode_body, encode_body, is_json
from schemas.errors import MalformedMessage
from schemas.evaluation import EvaluationMeasured
from schemas.message import Command, Fact, derived_id
from schemas.request import Compare, Refused, ShowFlow, ShowPredictions, ShowSpans, ShowTables
from schemas.subjects import command_subject, decisions_of
from services.analyzer.analysis import Analyzed, aim_of, analyze, samples_of
from services.analyzer.answers import answer_of
from services.analyzer.bounds import Bounds
from services.analyzer.errors import DatabaseAway
from services.analyzer.questions import Questions
from services.analyzer.store import Store
from services.analyzer.tables import ANALYSES
from services.analyzer.traces import Traces

_log = logging.getLogger(__name__)
_ALIVE_S = 10.0
_MOST_TRIES = 3
_MOST_DELAY_S = 5.0

P = ParamSpec("P")
T = TypeVar("T")


class AnalyzerSettings(Protocol):
    """What an analyzer needs to know."""

    def database_conninfo(self) -> str:
        """Return the database's address, password included."""
        ...

    @property
    def analysis_max_spans(self) -> int:
        """The most spans that are read of one evaluation."""
        ...


class Analyzer:
    """Makes tables when an evaluation is measured, and answers with them."""

    def __init__(self, bus: Bus, address: str, bounds: Bounds) -> None:
        """Open two stores at `address`: answers do not wait for analyses, which are bounded."""
        self._bus = bus
        self._work = Store(address, bounds)
        self._answers = Store(address)
        self._turn = asyncio.Lock()
        self.analyzed = 0
        self.failed = 0

    async def run(self) -> None:
        """Analyze every evaluation that is measured, for ever."""
        async for deliveries in self._bus.deliveries("analyzer", batch=1):
            for delivery in deliveries:
                async with keeping(delivery, _ALIVE_S):
                    await self._handle(delivery)

    async def tables(self, asked: Asked) -> bytes:
        """Answer `tables`: those of an evaluation, or why there are none."""
        json_text = is_json(asked.body)
        try:
            wanted = decode_body(ShowTables, asked.body)
            found = await self._tables(wanted)
        except MalformedMessage as error:
            found = Refused(
                error="malformed", message=str(error), field=error.field, found=error.found
            )
        except DatabaseAway as error:
            found = Refused(error="unavailable", message=f"the database is away: {error}")
        if isinstance(found, Refused):
            return encode_body(found, json_text=json_text)
        return answer_of(found, MAX_PAYLOAD_BYTES, json_text=json_text)

    def questions(self) -> Questions:
        """Return what answers about answers."""
        return Questions(self._bus, self._answers, self._turn)

    def close(self) -> None:
        """Give the connections back."""
        self._work.close()
        self._answers.close()

    async def _tables(self, wanted: ShowTables) -> Tables | Refused:
        names = {analysis.name: analysis.name for analysis in ANALYSES}
        known = names | {analysis.id: analysis.name for analysis in ANALYSES if analysis.id}
        strange = ", ".join(sorted(set(wanted.tables) - set(known)))
        if strange:
            return Refused(
                error="unknown",
                message=f"no table is called {strange}",
                field="tables",
                found=strange,
                allowed=", ".join(
                    f"{each.name} ({each.id})" if each.id else each.name for each in ANALYSES
                ),
            )
        told = tuple(known[each] for each in wanted.tables)
        wanted = wanted.model_copy(update={"tables": told})
        async with self._turn:
            found = await asyncio.to_thread(self._answers.tables, wanted)
        if found.tables:
            return found
        return Refused(
            error="unknown",
            message=f"evaluation {wanted.evaluation} has no tables, or not yet",
            field="evaluation",
            found=wanted.evaluation,
        )

    async def _handle(self, delivery: Delivery) -> None:
        """Analyze and say so. What goes wrong is tried again, at last it is an AnalysisFailed."""
        measured = cast("EvaluationMeasured", delivery.recorded.fact)
        try:
            done = await self._analyze(measured)
            names = tuple(table.name for table in done.tables)
            said: Fact = AnalysisCompleted(
                evaluation=measured.evaluation, tables=names, digest=done.digest
            )
            self.analyzed += 1
        except BusError as error:
            _log.warning("analysis of %s again later: %s", measured.evaluation, error)
            await delivery.retry()
            return
        except Exception as error:  # noqa: BLE001 (a service goes on: the failure becomes a fact)
            _log.exception("analysis of %s failed, try %d", measured.evaluation, delivery.tries)
            if delivery.tries < _MOST_TRIES:
                await delivery.retry()
                return
            cause = f"{type(error).__name__}: {error}"
            said = AnalysisFailed(evaluation=measured.evaluation, cause=cause)
            self.failed += 1
        await self._say(said, delivery)

    async def _analyze(self, measured: EvaluationMeasured) -> Analyzed:
        recorded = await self._bus.read(decisions_of(measured.evaluation))
        facts = [each.fact for each in recorded]
        frames = await _patiently(self._work.read, measured.evaluation, measured.runs)
        frames = replace(frames, samples=samples_of(facts), aim=aim_of(facts))
        done = await asyncio.to_thread(analyze, frames)
        await _patiently(
            self._work.write, measured.evaluation, done.tables, done.digest, done.trees
        )
        return done

    async def _say(self, fact: Fact, delivery: Delivery) -> None:
        cause = delivery.recorded.envelope.id
        try:
            await self._bus.publish(fact, id=derived_id(cause, fact.schema_name()), cause=cause)
        except BusError as error:
            _log.warning("%s not said yet: %s", fact.schema_name(), error)
            await delivery.retry()
        else:
            await delivery.ack()


async def serve(bus: Bus, settings: AnalyzerSettings, stop: asyncio.Event) -> None:
    """Analyze and answer until `stop` is set; an analysis under way is then given back."""
    bounds = Bounds(spans=settings.analysis_max_spans)
    analyzer = Analyzer(bus, settings.database_conninfo(), bounds)
    questions, traces = analyzer.questions(), Traces(bus, settings.database_conninfo())
    answerers: dict[type[Command], Answerer] = {
        ShowTables: analyzer.tables,
        ShowPredictions: questions.predictions,
        Compare: questions.compare,
        ShowSpans: traces.spans,
        ShowFlow: traces.flow,
    }
    for command, answerer in answerers.items():
        await bus.answer(command_subject(command), answerer, queue="analyzer")
    endpoints = {command.verb: command_subject(command) for command in answerers}
    await bus.announce(
        ServiceFacts("analyzer", version("mlscope"), "Makes tables of rows.", endpoints),
        lambda: {"analyzed": analyzer.analyzed, "failed": analyzer.failed},
    )
    running = asyncio.create_task(analyzer.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        running.cancel()
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            await running
        analyzer.close()
        traces.close()


async def _patiently(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do database work in a thread, again until the database answers."""
    delay_s = 0.1
    while True:
        try:
            return await asyncio.to_thread(act, *args, **kwargs)
        except DatabaseAway as error:
            _log.warning("database away, again in %.1f s: %s", delay_s, error)
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, _MOST_DELAY_S)
