"""Answers to `explore`: a table over the newest figures of many evaluations."""

import asyncio
from collections.abc import Collection

from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.counts import many
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.exploration import Explore, Explored
from schemas.request import Refused
from schemas.subjects import asker_of
from services.analyzer.answering.refusals import answer_or_refusal
from services.analyzer.answering.visibility import Visibility
from services.analyzer.exploring import EXPLORATIONS
from services.analyzer.store import Store

MOST_LOADS = 2000
"""The most loads that one table is made from: the newest."""
_BY_NAME = {exploration.name: exploration for exploration in EXPLORATIONS}


class Explorations:
    """Answers requests from a store; one request reads at a time."""

    def __init__(self, store: Store, turn: asyncio.Lock, visibility: Visibility) -> None:
        """Answer with rows of `store`, which all who take `turn` share.

        `visibility` says which evaluations count for whom.
        """
        self._store, self._turn, self._visibility = store, turn, visibility

    async def explore(self, command: ReceivedCommand) -> bytes:
        """Answer `explore` with one table, or with what there is to choose from."""

        async def read() -> Explored | Refused:
            request = decode_body(Explore, command.body)
            if request.table and request.table not in _BY_NAME:
                return Refused(
                    error="unknown",
                    message=f"no exploration is called {request.table}",
                    field="table",
                    found=request.table,
                    allowed=", ".join(_BY_NAME),
                )
            async with self._turn:  # One list of all evaluations at a time is enough.
                visible = await self._visibility.visible_to(asker_of(command.subject))
                return await asyncio.to_thread(self._explored, request, visible)

        json_text = is_json(command.body)
        answer = await answer_or_refusal(read())
        if isinstance(answer, Explored):
            return await asyncio.to_thread(fitting, answer, MAX_PAYLOAD_BYTES, json_text=json_text)
        return encode_body(answer, json_text=json_text)

    def _explored(self, request: Explore, visible: Collection[str] | None) -> Explored:
        names = tuple((exploration.name, exploration.title) for exploration in EXPLORATIONS)
        if not request.table:
            _, total = self._store.loads(request, is_history=False, limit=1, visible=visible)
            choices = self._store.choices(visible)
            return Explored(tables=names, choices=choices, total_loads=total)
        exploration = _BY_NAME[request.table]
        loads, total = self._store.loads(
            request, is_history=exploration.is_history, limit=MOST_LOADS, visible=visible
        )
        table = exploration.compute(loads, request.prices)
        if total > len(loads):
            note = f"made from the newest {len(loads)} of {many(total, 'load')}: narrow the search"
            table = table.model_copy(update={"caveats": (*table.caveats, note)})
        return Explored(
            table=table,
            tables=names,
            loads=len(loads),
            total_loads=total,
            total_rows=len(table.rows),
        )


def fitting(answer: Explored, most_bytes: int, *, json_text: bool) -> bytes:
    """Return an answer encoded in `most_bytes` or fewer, as JSON or msgpack (`json_text`).

    It has the first rows that fit; a caveat says how many are missing.
    """
    body = encode_body(answer, json_text=json_text)
    while len(body) > most_bytes and answer.table is not None and answer.table.rows:
        count = int(len(answer.table.rows) * 0.9 * most_bytes / len(body))
        note = f"the table has the first {count} of {many(answer.total_rows, 'row')}"
        caveats = tuple(
            caveat for caveat in answer.table.caveats if not caveat.startswith("the table has")
        )
        table = answer.table.model_copy(
            update={"rows": answer.table.rows[:count], "caveats": (*caveats, note)}
        )
        answer = answer.model_copy(update={"table": table})
        body = encode_body(answer, json_text=json_text)
    return body
