"""The analyzer as a service: it computes tables of measured evaluations, and answers requests."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import version
from types import MappingProxyType
from typing import Protocol, cast

from mlscope.bus.asked import answer_all, endpoints_of
from mlscope.bus.bus import Answerer, Bus, Delivery
from mlscope.bus.errors import BusError
from mlscope.bus.progress import reporting_progress
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.serving import run_until_stopped
from schemas.analysis import AnalysisCompleted, AnalysisFailed, Tables
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.evaluation import EvaluationMeasured
from schemas.exploration import Explore
from schemas.message import Command, Fact, derived_id
from schemas.request import Compare, Refused, ShowFlow, ShowPredictions, ShowTables
from schemas.subjects import decisions_of
from schemas.trace import ShowSpan, ShowSpans, ShowTrace, ShowWindow
from services.analyzer.analysis import (
    Analyzed,
    analyze,
    cancellation_caveats,
    is_prediction,
    model_of,
    samples_of,
    scoring_context_of,
)
from services.analyzer.answering.explorations import Explorations
from services.analyzer.answering.predictions import PredictionAnswers
from services.analyzer.answering.refusals import answer_or_refusal, no_tables
from services.analyzer.answering.tables import answer_of
from services.analyzer.answering.timelines import Timelines
from services.analyzer.answering.traces import Traces
from services.analyzer.answering.visibility import Visibility
from services.analyzer.errors import AnalysisTooLong, NoRuns, RowsMissing
from services.analyzer.frames.bounds import Bounds
from services.analyzer.own_thread import in_own_thread
from services.analyzer.patience import TRIES_FOR_ROWS, rows_delay_s, until_available, until_counted
from services.analyzer.reanalysis import Reanalyst
from services.analyzer.store import Store
from services.analyzer.tables import ANALYSES

_log = logging.getLogger(__name__)
_ALIVE_S = 10.0
_MOST_TRIES = 3
_FEW_TRIES_FOR_ROWS = 10
"""How often rows are looked for of which the log does not say that any were stored."""
_NAMES: Mapping[str, str] = MappingProxyType(
    {analysis.name: analysis.name for analysis in ANALYSES}
    | {analysis.id: analysis.name for analysis in ANALYSES if analysis.id}
)
"""The names of tables by what a request may call them: the name, or the id."""
_ALLOWED = ", ".join(
    f"{analysis.name} ({analysis.id})" if analysis.id else analysis.name for analysis in ANALYSES
)
"""The tables that a request may ask for, as a refusal lists them."""


class AnalyzerSettings(Protocol):
    """The settings of an analyzer."""

    def database_conninfo(self) -> str:
        """Return the address of the database, including the password."""
        ...

    @property
    def analysis_max_spans(self) -> int:
        """The most spans that are read of one evaluation."""
        ...

    @property
    def analysis_wait_s(self) -> float:
        """How long the scheduler waits for the tables of an evaluation (s)."""
        ...


class Analyzer:
    """Computes tables when an evaluation is measured, and answers requests for them."""

    def __init__(
        self,
        bus: Bus,
        address: str,
        bounds: Bounds,
        on_analyzed: Callable[[str], None],
        wait_s: float,
    ) -> None:
        """Open two stores at `address`, so answers do not wait for analyses.

        `bus` has the evaluations; `bounds` limit the rows that are read of one; `on_analyzed` is
        called with each evaluation whose tables are stored. `wait_s` is how long the scheduler
        waits for tables: one analysis may take half of it, since others wait behind it.
        """
        self._on_analyzed = on_analyzed
        self._computed_within_s = wait_s / 2
        self._bus = bus
        self._work = Store(address, bounds)
        self._answers = Store(address)
        self._turn = asyncio.Lock()
        self.analyzed = 0
        self.failed = 0
        self.is_stuck = False

    async def run(self) -> None:
        """Analyze every measured evaluation, until one takes too long. Raises AnalysisTooLong.

        Such an analysis may go on for ever: only the end of the process ends it.
        """
        async for deliveries in self._bus.deliveries("analyzer", batch=1):
            for delivery in deliveries:
                async with reporting_progress(delivery, _ALIVE_S):
                    await self._handle(delivery)
            if self.is_stuck:
                raise AnalysisTooLong(self._computed_within_s)

    async def tables(self, command: ReceivedCommand) -> bytes:
        """Answer `tables` with the tables of an evaluation, or a refusal with the reason."""

        async def read() -> Tables | Refused:
            request = decode_body(ShowTables, command.body)
            unknown = sorted(set(request.tables) - set(_NAMES))
            if unknown:
                names = [name if name.strip() else repr(name) for name in unknown]
                similar = [n for name in unknown for n in get_close_matches(name, _NAMES, n=1)]
                suggestion = f"; did you mean {' or '.join(similar)}?" if similar else ""
                return Refused(
                    error="unknown",
                    message=f"no table is called {', '.join(names)}{suggestion}",
                    field="tables",
                    found=", ".join(unknown),
                    allowed=_ALLOWED,
                )
            tables = tuple(_NAMES[table] for table in request.tables)
            request = request.model_copy(update={"tables": tables})
            async with self._turn:
                stored = await asyncio.to_thread(self._answers.tables, request)
            if stored.tables:
                return stored
            decisions = await self._bus.read(decisions_of(request.evaluation))
            return no_tables(request.evaluation, [entry.fact for entry in decisions])

        json_text = is_json(command.body)
        answer = await answer_or_refusal(read())
        if isinstance(answer, Tables):
            return answer_of(answer, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(answer, json_text=json_text)

    def prediction_answers(self, visibility: Visibility) -> PredictionAnswers:
        """Return the answerer of requests about models' answers and comparisons.

        `visibility` says which evaluations are private.
        """
        return PredictionAnswers(self._bus, self._answers, self._turn, visibility)

    def explorations(self, visibility: Visibility) -> Explorations:
        """Return the answerer of requests about many evaluations, of which some are private.

        `visibility` says which.
        """
        return Explorations(self._answers, self._turn, visibility)

    def close(self) -> None:
        """Close the connections."""
        self._work.close()
        self._answers.close()

    async def analyze(self, measured: EvaluationMeasured, facts: Sequence[Fact]) -> Analyzed:
        """Compute and store the tables of an evaluation that was `measured`, and return them.

        `facts` are the decisions about it. Raises NoRuns, RowsMissing, AnalysisTooLong.
        """
        frames = await until_counted(self._work.read, measured.evaluation, measured.runs)
        context = scoring_context_of(facts)
        caveats = (*frames.caveats, *cancellation_caveats(measured, facts))
        frames = replace(
            frames, samples=samples_of(facts), scoring_context=context, caveats=caveats
        )
        try:
            async with asyncio.timeout(self._computed_within_s):
                analyzed = await in_own_thread(analyze, frames, model_of(facts))
        except TimeoutError:
            self.is_stuck = True
            raise AnalysisTooLong(self._computed_within_s) from None
        if is_prediction(facts):
            # A few files without a warm-up do not say how fast a model is: nothing to explore.
            analyzed = replace(analyzed, summaries=())
        await until_available(self._work.write, measured.evaluation, analyzed)
        return analyzed

    async def _handle(self, delivery: Delivery) -> None:
        """Analyze an evaluation and publish the outcome.

        A failure is tried again; the last one is published as AnalysisFailed.
        """
        measured = cast("EvaluationMeasured", delivery.recorded.fact)
        place = {"evaluation": measured.evaluation}
        outcome: Fact
        try:
            recorded = await self._bus.read(decisions_of(measured.evaluation))
            facts = [entry.fact for entry in recorded]
            analyzed = await self.analyze(measured, facts)
            outcome = AnalysisCompleted(
                evaluation=measured.evaluation,
                tables=tuple(table.name for table in analyzed.tables),
                digest=analyzed.digest,
                headlines=analyzed.headlines,
            )
            self.analyzed += 1
        except BusError as error:
            _log.warning("analysis postponed, retrying later: %s", error, extra=place)
            await delivery.retry()
            return
        except Exception as error:  # noqa: BLE001 (a service goes on: the failure becomes a fact)
            most_tries, delay_s = 1 if isinstance(error, AnalysisTooLong) else _MOST_TRIES, None
            lacks_rows = isinstance(error, NoRuns | RowsMissing)
            failure = f"analysis failed, try {delivery.tries}: {error}"
            _log.error(failure, extra=place, exc_info=not lacks_rows)
            if lacks_rows:
                were_stored = any(run.queries or run.spans for run in measured.runs)
                most_tries = TRIES_FOR_ROWS if were_stored else _FEW_TRIES_FOR_ROWS
                delay_s = rows_delay_s(delivery.tries)
            if delivery.tries < most_tries:
                await delivery.retry(delay_s)
                return
            cause = f"{type(error).__name__}: {error}"
            outcome = AnalysisFailed(evaluation=measured.evaluation, cause=cause)
            self.failed += 1
        await self._publish(outcome, delivery)
        if isinstance(outcome, AnalysisCompleted):
            self._on_analyzed(measured.evaluation)

    async def _publish(self, fact: Fact, delivery: Delivery) -> None:
        cause = delivery.recorded.envelope.id
        try:
            await self._bus.publish(fact, id=derived_id(cause, fact.schema_name()), cause=cause)
        except BusError as error:
            _log.warning("%s not published yet: %s", fact.schema_name(), error)
            await delivery.retry()
        else:
            await delivery.ack()


async def serve(bus: Bus, settings: AnalyzerSettings, stop: asyncio.Event) -> None:
    """Analyze and answer on `bus` with `settings` until `stop` is set.

    An analysis that runs at that time is redelivered later.
    """
    bounds = Bounds(spans=settings.analysis_max_spans)
    address, wait_s = settings.database_conninfo(), settings.analysis_wait_s
    timelines = Timelines(address)
    analyzer = Analyzer(bus, address, bounds, timelines.prepare, wait_s)
    reanalyst = Reanalyst(bus, address, analyzer.analyze)
    visibility = Visibility(bus)
    predictions, traces = analyzer.prediction_answers(visibility), Traces(bus, address)
    answerers: dict[type[Command], Answerer] = {
        ShowTables: analyzer.tables,
        ShowPredictions: predictions.predictions,
        Compare: predictions.compare,
        Explore: analyzer.explorations(visibility).explore,
        ShowSpans: traces.spans,
        ShowFlow: traces.flow,
        ShowTrace: timelines.trace,
        ShowWindow: timelines.window,
        ShowSpan: timelines.span,
    }
    for command, answerer in answerers.items():
        await answer_all(bus, command, visibility.guarded(command, answerer), queue="analyzer")
    endpoints = endpoints_of(answerers)
    await bus.announce(
        ServiceInfo("analyzer", version("mlscope"), "Computes tables from rows.", endpoints),
        lambda: {"analyzed": analyzer.analyzed, "failed": analyzer.failed},
    )
    try:
        await run_until_stopped(stop, analyzer.run(), reanalyst.watch())
    finally:
        analyzer.close()
        reanalyst.close()
        traces.close()
        timelines.close()
