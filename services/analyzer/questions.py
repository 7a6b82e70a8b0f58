"""Answers to `predictions` and `compare`: what models said, and how far two of them are apart."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from mlscope.bus.bus import Asked, Bus
from mlscope.bus.errors import BusError
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.counts import many
from schemas.analysis import Compared, Predictions, Table
from schemas.codec import decode_body, encode_body, is_json
from schemas.errors import MalformedMessage
from schemas.evaluation import EvaluationPlanned
from schemas.message import Message
from schemas.plan import Subject
from schemas.request import Compare, Refused, ShowPredictions, ShowTables
from schemas.subjects import decisions_of
from services.analyzer.across import COMPARISONS, READ
from services.analyzer.across.source import Source, Terms
from services.analyzer.divergence import compared
from services.analyzer.errors import DatabaseAway, NoSuchRun, NotAlike
from services.analyzer.store import Store

MOST_PREDICTIONS = 1000
"""Of one answer; those behind them are asked for by offset."""

MOST_COMPARED = 100_000
"""Answers of a run that are compared."""


class Questions:
    """Answers with what a store holds; one question reads at a time."""

    def __init__(self, bus: Bus, store: Store, turn: asyncio.Lock) -> None:
        """Share `store` with whoever else takes `turn`."""
        self._bus, self._store, self._turn = bus, store, turn

    async def predictions(self, asked: Asked) -> bytes:
        """Answer `predictions`: as many as fit."""
        json_text = is_json(asked.body)
        found = await _refusing(self._predictions(asked.body))
        if isinstance(found, Predictions):
            return await asyncio.to_thread(fitting, found, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(found, json_text=json_text)

    async def compare(self, asked: Asked) -> bytes:
        """Answer `compare`: the measures, and as many samples as fit."""
        json_text = is_json(asked.body)
        found = await _refusing(self._compare(asked.body))
        if isinstance(found, Compared):
            return await asyncio.to_thread(shortened, found, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(found, json_text=json_text)

    async def _predictions(self, body: bytes) -> Message:
        wanted = decode_body(ShowPredictions, body)
        async with self._turn:
            return await asyncio.to_thread(self._store.predictions, wanted, MOST_PREDICTIONS)

    async def _compare(self, body: bytes) -> Message:
        wanted = decode_body(Compare, body)
        if wanted.figures:
            return await self._figures(wanted)
        subjects = [await self._subject(each) for each in (wanted.first, wanted.second)]
        check_alike(*subjects)
        async with self._turn:
            first, second = [
                await asyncio.to_thread(self._store.side, evaluation, run, MOST_COMPARED)
                for evaluation, run in (
                    (wanted.first, wanted.first_run),
                    (wanted.second, wanted.second_run),
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

    async def _figures(self, wanted: Compare) -> Compared:
        """Set the tables of evaluations side by side. Raises NoSuchRun."""
        names = tuple(dict.fromkeys((wanted.first, wanted.second, *wanted.others)))
        sources = []
        for name in names:
            async with self._turn:
                asked = ShowTables(evaluation=name, tables=READ)
                found = await asyncio.to_thread(self._store.tables, asked)
            if not found.tables:
                raise NoSuchRun(name, "")
            sources.append(Source(name, {table.name: table for table in found.tables}))
        terms = Terms(
            wanted.prices, wanted.most_latency_ns, wanted.most_cost, wanted.least_accuracy
        )
        tables = await asyncio.to_thread(
            lambda: tuple(each.compute(sources, terms) for each in COMPARISONS)
        )
        return Compared(
            first=wanted.first,
            second=wanted.second,
            first_run="",
            second_run="",
            tables=tables,
            others=names[2:],
        )

    async def _subject(self, evaluation: str) -> Subject:
        """Return what an evaluation's plan is of. Raises NoSuchRun."""
        recorded = await self._bus.read(decisions_of(evaluation))
        plans = [each.fact.plan for each in recorded if isinstance(each.fact, EvaluationPlanned)]
        if not plans:
            raise NoSuchRun(evaluation, "")
        return plans[-1].subject


def check_alike(first: Subject, second: Subject) -> None:
    """Raise NotAlike unless both have the same samples."""
    ones, others = (_samples(each) for each in (first, second))
    names = [f"{each.dataset.name}:{each.dataset.version}" for each in (first, second)]
    if names[0] != names[1]:
        raise NotAlike("dataset", f"the datasets differ: {names[0]} and {names[1]}")
    if ones != others:
        raise NotAlike("dataset", f"two datasets are called {names[0]}, and their samples differ")


def _samples(subject: Subject) -> dict[str, Any]:
    """Return what makes the samples of a dataset what they are."""
    return subject.dataset.model_dump(include={"samples", "source", "synthetic", "modality"})


def fitting(found: Predictions, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer of `most_bytes` or fewer: the first predictions, or one without features."""
    kept = len(found.predictions)
    while True:
        some = found.model_copy(update={"predictions": found.predictions[:kept]})
        body = encode_body(some, json_text=json_text)
        if len(body) <= most_bytes or not kept:
            return body
        if kept == 1:
            bare = found.predictions[0].model_copy(
                update={"features": ({"left_out": {"features": len(body)}},), "truth": {}}
            )
            alone = found.model_copy(update={"predictions": (bare,)})
            return encode_body(alone, json_text=json_text)
        kept //= 2


def shortened(found: Compared, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer of `most_bytes` or fewer: rows of the longest table go, and that is said."""
    place = max(range(len(found.tables)), key=lambda at: (len(found.tables[at].rows), at))
    longest = found.tables[place]
    kept = len(longest.rows)
    while True:
        tables = (*found.tables[:place], _first(longest, kept), *found.tables[place + 1 :])
        some = found.model_copy(update={"tables": tables})
        body = encode_body(some, json_text=json_text)
        if len(body) <= most_bytes or not kept:
            return body
        kept //= 2


def _first(table: Table, kept: int) -> Table:
    if kept == len(table.rows):
        return table
    caveat = f"the first {kept} of {many(len(table.rows), 'row')}"
    return table.model_copy(update={"rows": table.rows[:kept], "caveats": (*table.caveats, caveat)})


async def _refusing(answer: Awaitable[Message]) -> Message:
    """Return an answer, or the refusal that says why there is none."""
    try:
        return await answer
    except MalformedMessage as error:
        return Refused(error="malformed", message=str(error), field=error.field, found=error.found)
    except NoSuchRun as error:
        return Refused(
            error="unknown",
            message=str(error),
            field="run" if error.run else "evaluation",
            found=error.run or error.evaluation,
        )
    except NotAlike as error:
        return Refused(error="invalid", message=f"not comparable: {error.why}", field=error.what)
    except (DatabaseAway, BusError) as error:
        return Refused(error="unavailable", message=f"ask again later: {error}")
