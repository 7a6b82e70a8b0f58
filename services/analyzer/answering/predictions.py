"""Answers to `predictions` and `compare`: models' answers, and how two evaluations differ."""

import asyncio
from dataclasses import replace

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.client.equivalents import equivalents_of
from mlscope.counts import many
from mlscope.statistics import REPEATS_READ
from schemas.analysis import Compared, Predictions
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.evaluation import EvaluationPlanned, EvaluationRequested
from schemas.people import Asker
from schemas.plan import Subject
from schemas.request import Compare, ShowPredictions, ShowTables
from schemas.subjects import asker_of, decisions_of
from services.analyzer.answering.refusals import answer_or_refusal
from services.analyzer.answering.visibility import Visibility
from services.analyzer.comparisons import TABLES_OF_REPEATS, TABLES_READ, comparisons_of
from services.analyzer.comparisons.source import Source, Terms
from services.analyzer.divergence import compared
from services.analyzer.errors import NoSuchRun, NotAlike
from services.analyzer.store import Store

MOST_PREDICTIONS = 1000
"""The most predictions in one answer; further ones are requested by offset."""

MOST_COMPARED = 100_000
"""The most answers of a run that are compared."""


class PredictionAnswers:
    """Answers `predictions` and `compare` from a store; one request reads at a time."""

    def __init__(self, bus: Bus, store: Store, turn: asyncio.Lock, visibility: Visibility) -> None:
        """Answer with facts of `bus` and rows of `store`, which all who take `turn` share.

        `visibility` says which evaluations count for whom.
        """
        self._bus, self._store, self._turn, self._visibility = bus, store, turn, visibility

    async def predictions(self, command: ReceivedCommand) -> bytes:
        """Answer `predictions` with as many as fit into a message."""

        async def read() -> Predictions:
            request = decode_body(ShowPredictions, command.body)
            async with self._turn:
                return await asyncio.to_thread(self._store.predictions, request, MOST_PREDICTIONS)

        json_text = is_json(command.body)
        answer = await answer_or_refusal(read())
        if isinstance(answer, Predictions):
            return await asyncio.to_thread(fitting, answer, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(answer, json_text=json_text)

    async def compare(self, command: ReceivedCommand) -> bytes:
        """Answer `compare` with the measures and as many samples as fit into a message."""
        json_text = is_json(command.body)
        answer = await answer_or_refusal(self._compare(command))
        if isinstance(answer, Compared):
            return await asyncio.to_thread(
                shortened, answer, MAX_PAYLOAD_BYTES, json_text=json_text
            )
        return encode_body(answer, json_text=json_text)

    async def _compare(self, command: ReceivedCommand) -> Compared:
        request = decode_body(Compare, command.body)
        if request.figures:
            return await self._figures(request, asker_of(command.subject))
        subjects = []
        for evaluation in (request.first, request.second):
            recorded = await self._bus.read(decisions_of(evaluation))
            facts = [entry.fact for entry in recorded]
            plans = [fact.plan for fact in facts if isinstance(fact, EvaluationPlanned)]
            if not plans:
                raise NoSuchRun(evaluation, "")
            subjects.append(plans[-1].subject)
        check_alike(*subjects)
        async with self._turn:
            first, second = [
                await asyncio.to_thread(self._store.side, evaluation, run, MOST_COMPARED)
                for evaluation, run in (
                    (request.first, request.first_run),
                    (request.second, request.second_run),
                )
            ]
        tables = await asyncio.to_thread(compared, first, second)
        return Compared(
            first=first.evaluation,
            second=second.evaluation,
            first_run=first.run,
            second_run=second.run,
            tables=tables,
        )

    async def _figures(self, request: Compare, asker: Asker) -> Compared:
        """Compare the tables of evaluations. Raises NoSuchRun.

        Further evaluations of their loads that the `asker` sees say how much drift there is.
        """
        names = tuple(dict.fromkeys((request.first, request.second, *request.others)))
        async with self._turn:
            beginnings = await asyncio.to_thread(self._store.beginnings, names)
            visible = await self._visibility.visible_to(asker)
            repeats = await asyncio.to_thread(self._store.repeats, names, REPEATS_READ, visible)
        sources = []
        for name in names:
            source = await self._source(name, TABLES_READ)
            command = await self._command(name)
            sources.append(replace(source, began_s=beginnings.get(name), command=command))
        others = [await self._source(name, TABLES_OF_REPEATS) for name in repeats]
        terms = Terms(
            request.prices,
            request.most_latency_ns,
            request.most_cost,
            request.least_accuracy,
            others,
        )
        tables = await asyncio.to_thread(comparisons_of, sources, terms)
        return Compared(
            first=request.first,
            second=request.second,
            first_run="",
            second_run="",
            tables=tables,
            others=names[2:],
        )

    async def _source(self, evaluation: str, tables: tuple[str, ...]) -> Source:
        """Return an evaluation with some of its tables. Raises NoSuchRun where it has none."""
        async with self._turn:
            request = ShowTables(evaluation=evaluation, tables=tables)
            stored = await asyncio.to_thread(self._store.tables, request)
        if not stored.tables:
            raise NoSuchRun(evaluation, "")
        return Source(evaluation, {table.name: table for table in stored.tables})

    async def _command(self, evaluation: str) -> str:
        """Return the command that requests what an evaluation measured; '' for an import."""
        recorded = await self._bus.read(decisions_of(evaluation))
        requests = [
            entry.fact.request for entry in recorded if isinstance(entry.fact, EvaluationRequested)
        ]
        return equivalents_of(requests[:1]).command_line if requests else ""


def check_alike(first: Subject, second: Subject) -> None:
    """Raise NotAlike unless both have the same samples; names of samples do not count."""
    names = [f"{subject.dataset.name}:{subject.dataset.version}" for subject in (first, second)]
    if names[0] != names[1]:
        raise NotAlike("dataset", f"the datasets differ: {names[0]} and {names[1]}")
    samples, other_samples = (
        subject.dataset.model_dump(
            include={"samples", "source", "synthetic", "modality"},
            exclude={"samples": {"__all__": {"name"}}},
        )
        for subject in (first, second)
    )
    if samples != other_samples:
        raise NotAlike("dataset", f"two datasets are called {names[0]}, and their samples differ")


def fitting(answer: Predictions, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer encoded in `most_bytes` or fewer, as JSON or msgpack (`json_text`).

    It has the first predictions that fit; a single one that does not fit has no features.
    """
    count = len(answer.predictions)
    while True:
        shortened_answer = answer.model_copy(update={"predictions": answer.predictions[:count]})
        body = encode_body(shortened_answer, json_text=json_text)
        if len(body) <= most_bytes or not count:
            return body
        if count == 1:
            bare = answer.predictions[0].model_copy(
                update={"features": ({"left_out": {"features": len(body)}},), "truth": {}}
            )
            single = answer.model_copy(update={"predictions": (bare,)})
            return encode_body(single, json_text=json_text)
        count //= 2


def shortened(answer: Compared, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer encoded in `most_bytes` or fewer, as JSON or msgpack (`json_text`).

    Rows of the longest table are left out, and a caveat says so.
    """
    place = max(range(len(answer.tables)), key=lambda at: (len(answer.tables[at].rows), at))
    longest = answer.tables[place]
    count = total = len(longest.rows)
    while True:
        table = longest
        if count < total:
            caveat = f"the first {count} of {many(total, 'row')}"
            table = longest.model_copy(
                update={"rows": longest.rows[:count], "caveats": (*longest.caveats, caveat)}
            )
        tables = (*answer.tables[:place], table, *answer.tables[place + 1 :])
        body = encode_body(answer.model_copy(update={"tables": tables}), json_text=json_text)
        if len(body) <= most_bytes or not count:
            return body
        count //= 2
