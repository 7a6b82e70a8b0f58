"""Answers to `spans` and `flow`: the trace of a run, and the facts of an evaluation."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import dict_row, tuple_row

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.database.connection import Database
from mlscope.database.statements import read_statements
from schemas.analysis import Flow, SpanRow, Spans, TracedRun
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.request import Refused, ShowFlow
from schemas.subjects import story_of
from schemas.trace import ShowSpans
from services.analyzer.answering.refusals import answer_or_refusal
from services.analyzer.errors import DatabaseAway, NoSuchRun
from services.analyzer.traces.clocks import cluster_epoch_ns

MOST_SPANS = 4_000
"""The most spans in one answer; further ones are requested by the last span."""


class Traces:
    """Answers requests for spans, which read one at a time, and for facts."""

    def __init__(self, bus: Bus, database_url: str) -> None:
        """Use `bus` and a database, connected at the first request and again after a loss."""
        self._bus = bus
        self._database = Database(database_url)
        self._statements = read_statements(Path(__file__).with_name("spans.sql"))
        self._turn = asyncio.Lock()

    async def spans(self, command: ReceivedCommand) -> bytes:
        """Answer `spans` with as many as fit into a message."""

        async def read() -> Spans:
            request = decode_body(ShowSpans, command.body)
            async with self._turn:
                return await asyncio.to_thread(self.read, request)

        json_text = is_json(command.body)
        answer = await answer_or_refusal(read())
        if isinstance(answer, Spans):
            return await asyncio.to_thread(fitting, answer, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(answer, json_text=json_text)

    async def flow(self, command: ReceivedCommand) -> bytes:
        """Answer `flow` with as many envelopes as fit into a message, as JSON values in order."""

        async def read() -> Flow:
            request = decode_body(ShowFlow, command.body)
            recorded = await self._bus.read(story_of(request.evaluation))
            facts = (
                entry.envelope.model_dump(mode="json", by_alias=True, exclude={"data"})
                | {"data": entry.fact.model_dump(mode="json")}
                for entry in recorded[request.offset :]
            )
            return Flow(evaluation=request.evaluation, facts=tuple(facts))

        json_text = is_json(command.body)
        answer = await answer_or_refusal(read())
        if isinstance(answer, Refused):
            return encode_body(answer, json_text=json_text)
        total = count = len(answer.facts)
        while True:
            page = answer.model_copy(update={"facts": answer.facts[:count], "more": count < total})
            body = encode_body(page, json_text=json_text)
            if len(body) <= MAX_PAYLOAD_BYTES or count <= 1:
                return body
            count //= 2

    def read(self, request: ShowSpans) -> Spans:
        """Return the next spans of a run. Raises NoSuchRun, DatabaseAway."""

        def read(session: psycopg.Connection[Any]) -> Spans:
            statement = self._statements["traced_runs"].encode()
            parameters: dict[str, Any] = {"evaluation": request.evaluation}
            runs = session.cursor(row_factory=dict_row).execute(statement, parameters).fetchall()
            chosen = [row for row in runs if request.run in ("", row["run"])]
            if not chosen:
                raise NoSuchRun(request.evaluation, request.run)
            limit = min(request.limit or MOST_SPANS, MOST_SPANS)
            after = {"start_ns": request.after_ns, "span": request.after_span}
            parameters = {**chosen[0], **after, "limit": limit + 1}
            statement = self._statements["spans_after"].encode()
            rows = session.cursor(row_factory=tuple_row).execute(statement, parameters).fetchall()
            columns = TracedRun.model_fields.keys() - {"epoch_ns"}
            traced_runs = tuple(
                TracedRun(epoch_ns=cluster_epoch_ns(row), **{name: row[name] for name in columns})
                for row in runs
            )
            return Spans(
                evaluation=request.evaluation,
                runs=traced_runs,
                run=chosen[0]["run"],
                spans=tuple(SpanRow(*row) for row in rows[:limit]),
                more=len(rows) > limit,
            )

        try:
            return self._database.read(read)
        except (
            psycopg.OperationalError,
            psycopg.InternalError,
            errors.UndefinedTable,
            errors.UndefinedColumn,
        ) as error:
            raise DatabaseAway(str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def fitting(answer: Spans, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer encoded in `most_bytes` or fewer, as JSON or msgpack (`json_text`).

    It has the first spans that fit, and says that there are more. A single span that does not fit
    has no attributes.
    """
    while True:
        body = encode_body(answer, json_text=json_text)
        if len(body) <= most_bytes or not answer.spans:
            return body
        if len(answer.spans) == 1:
            bare = answer.spans[0]._replace(attributes='{"left_out": true}')
            single = answer.model_copy(update={"spans": (bare,)})
            return encode_body(single, json_text=json_text)
        first_half = answer.spans[: max(len(answer.spans) // 2, 1)]
        answer = answer.model_copy(update={"spans": first_half, "more": True})
