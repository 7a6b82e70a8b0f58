"""Answers to `spans` and `flow`: what a run's trace holds, and what was said of an evaluation."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import dict_row, tuple_row

from mlscope.bus.bus import Asked, Bus
from mlscope.bus.errors import BusError
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.database import Database
from mlscope.statements import read_statements
from schemas.analysis import Flow, SpanRow, Spans, TracedRun
from schemas.codec import decode_body, encode_body, is_json
from schemas.errors import MalformedMessage
from schemas.request import Refused, ShowFlow, ShowSpans
from schemas.subjects import story_of
from services.analyzer.errors import DatabaseAway, NoSuchRun

MOST_SPANS = 4_000
"""Spans of one answer; those behind are asked for by the last one."""


class Traces:
    """Reads spans for whoever asks, one question at a time; and facts."""

    def __init__(self, bus: Bus, database_url: str) -> None:
        """Connect when asked first, and anew after a loss."""
        self._bus = bus
        self._database = Database(database_url)
        self._statements = read_statements(Path(__file__).with_name("spans.sql"))
        self._turn = asyncio.Lock()

    async def spans(self, asked: Asked) -> bytes:
        """Answer `spans`: as many as fit."""
        json_text = is_json(asked.body)
        try:
            wanted = decode_body(ShowSpans, asked.body)
            async with self._turn:
                found = await asyncio.to_thread(self.read, wanted)
            return await asyncio.to_thread(fitting, found, MAX_PAYLOAD_BYTES, json_text=json_text)
        except MalformedMessage as error:
            refused = Refused(
                error="malformed", message=str(error), field=error.field, found=error.found
            )
        except NoSuchRun as error:
            refused = Refused(
                error="unknown", message=str(error), field="run" if error.run else "evaluation"
            )
        except DatabaseAway as error:
            refused = Refused(error="unavailable", message=f"ask again later: {error}")
        return encode_body(refused, json_text=json_text)

    async def flow(self, asked: Asked) -> bytes:
        """Answer `flow`: as many facts as fit."""
        json_text = is_json(asked.body)
        try:
            wanted = decode_body(ShowFlow, asked.body)
            facts = await self._facts(wanted.evaluation)
        except MalformedMessage as error:
            refused = Refused(
                error="malformed", message=str(error), field=error.field, found=error.found
            )
            return encode_body(refused, json_text=json_text)
        except BusError as error:
            refused = Refused(error="unavailable", message=f"ask again later: {error}")
            return encode_body(refused, json_text=json_text)
        left = facts[wanted.offset :]
        kept = len(left)
        while True:
            told = Flow(
                evaluation=wanted.evaluation, facts=tuple(left[:kept]), more=kept < len(left)
            )
            body = encode_body(told, json_text=json_text)
            if len(body) <= MAX_PAYLOAD_BYTES or kept <= 1:
                return body
            kept //= 2

    async def _facts(self, evaluation: str) -> list[dict[str, Any]]:
        """Return the envelopes of an evaluation's stream, in their order, as JSON has them."""
        recorded = await self._bus.read(story_of(evaluation))
        return [
            each.envelope.model_dump(mode="json", by_alias=True, exclude={"data"})
            | {"data": each.fact.model_dump(mode="json")}
            for each in recorded
        ]

    def read(self, wanted: ShowSpans) -> Spans:
        """Return the next spans of a run. Raises NoSuchRun, DatabaseAway."""
        try:
            return self._database.read(lambda session: self._read(session, wanted))
        except (
            psycopg.OperationalError,
            psycopg.InternalError,
            errors.UndefinedTable,
            errors.UndefinedColumn,
        ) as error:
            raise DatabaseAway(str(error)) from error

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()

    def _read(self, session: psycopg.Connection[Any], wanted: ShowSpans) -> Spans:
        cursor = session.cursor(row_factory=dict_row)
        statement = self._statements["traced_runs"].encode()
        runs = cursor.execute(statement, {"evaluation": wanted.evaluation}).fetchall()
        chosen = [row for row in runs if wanted.run in ("", row["run"])]
        if not chosen:
            raise NoSuchRun(wanted.evaluation, wanted.run)
        limit = min(wanted.limit or MOST_SPANS, MOST_SPANS)
        after = {"start_ns": wanted.after_ns, "span": wanted.after_span}
        values = {**chosen[0], **after, "limit": limit + 1}
        rows = session.cursor(row_factory=tuple_row)
        found = rows.execute(self._statements["spans_after"].encode(), values).fetchall()
        return Spans(
            evaluation=wanted.evaluation,
            runs=tuple(_told(row) for row in runs),
            run=chosen[0]["run"],
            spans=tuple(SpanRow(*row) for row in found[:limit]),
            more=len(found) > limit,
        )


def _told(row: dict[str, Any]) -> TracedRun:
    return TracedRun(**{name: row[name] for name in TracedRun.model_fields})


def fitting(found: Spans, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer of `most_bytes` or fewer: the first spans, and that there are more.

    A span too large to be sent alone has no attributes.
    """
    while True:
        body = encode_body(found, json_text=json_text)
        if len(body) <= most_bytes or not found.spans:
            return body
        kept = found.spans[: max(len(found.spans) // 2, 1)]
        if len(found.spans) == 1:
            kept = (found.spans[0]._replace(attributes='{"left_out": true}'),)
            bare = found.model_copy(update={"spans": kept})
            return encode_body(bare, json_text=json_text)
        found = found.model_copy(update={"spans": kept, "more": True})
