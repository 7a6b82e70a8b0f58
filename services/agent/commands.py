"""What an agent answers: `start`, `stop` and `close`; of remote loads `query` and `finish`."""

from collections.abc import Awaitable, Callable, Mapping

import msgpack

from mlscope.bus.bus import Asked, Bus
from schemas.codec import decode_body, encode_body, is_json, unpack
from schemas.errors import SchemaError
from schemas.plan import WorkAnswer, WorkOrder
from schemas.subjects import agent_command
from services.agent.channel import Words
from services.agent.control import MOST_WAITING
from services.agent.desk import Desk, RunName
from services.agent.issued import Issued
from services.agent.sessions import SessionKey, Sessions

_ANSWER_S = 600.0

Verb = Callable[[Words, bytes], Awaitable[bytes]]
"""Reads a command, from what its body says and the body; then, awaited, answers it."""


class Commands:
    """Answers commands from the desk; what takes time happens elsewhere."""

    def __init__(self, desk: Desk, sessions: Sessions) -> None:
        self._desk, self._sessions = desk, sessions

    async def open(self, bus: Bus, agent: str) -> Mapping[str, str]:
        """Begin to answer over `bus`; return each verb's subject."""
        verbs: Mapping[str, Verb] = {
            "start": self._start,
            "stop": self._stop,
            "close": self._close,
            "query": self._query,
            "finish": self._finish,
        }
        subjects = {verb: agent_command(agent, verb) for verb in verbs}
        for verb, subject in subjects.items():
            answerer = _answering(verbs[verb])
            if verb == "query":
                # They wait in the worker, where waiting is measured; it bounds them, not the bus.
                most = 2 * MOST_WAITING
                await bus.answer(
                    subject, answerer, queue=None, limit_pending=most, limit_running=most
                )
            else:
                await bus.answer(subject, answerer, queue=None)
        return subjects

    def _start(self, _: Words, body: bytes) -> Awaitable[bytes]:
        return self._started(decode_body(WorkOrder, body), body)

    async def _started(self, order: WorkOrder, body: bytes) -> bytes:
        answer, is_new = self._desk.take(order)
        if is_new:
            await self._stop_older(order)
        return encode_body(answer, json_text=is_json(body))

    async def _stop_older(self, order: WorkOrder) -> None:
        """End attempts under way that a new order repeats: nobody waits for them any more."""
        execution = self._desk.execution
        if execution is None or execution.order.evaluation != order.evaluation:
            return
        for run in execution.telling.left:
            if run in order.runs and execution.order.attempt < order.attempt:
                await execution.stop(run, f"attempt {order.attempt} was ordered")

    def _stop(self, words: Words, body: bytes) -> Awaitable[bytes]:
        return self._stopped(_run_name(words), str(words.get("reason", "")), body)

    async def _stopped(self, name: RunName, reason: str, body: bytes) -> bytes:
        execution = self._desk.running(name)
        if execution is not None:
            await execution.stop(name[1], reason)
        elif not self._desk.stop_ahead(name, reason):
            return _told_off(body, "unknown", "no such run is waiting or under way")
        return encode_body(WorkAnswer(accepted=True), json_text=is_json(body))

    def _close(self, words: Words, body: bytes) -> Awaitable[bytes]:
        return self._closed((str(words["evaluation"]), str(words["session"])), body)

    async def _closed(self, key: SessionKey, body: bytes) -> bytes:
        message = await self._sessions.close_when_idle(key)
        return encode_body(WorkAnswer(accepted=True, message=message), json_text=is_json(body))

    def _query(self, words: Words, _: bytes) -> Awaitable[bytes]:
        return self._queried(_run_name(words), int(words["query"]), words)

    async def _queried(self, name: RunName, query: int, words: Words) -> bytes:
        execution = self._desk.running(name)
        answer: Words = {"query": query, "status": 1, "service_ns": 0}
        if execution is None:
            answer["error"] = "stale: this attempt is not under way here"
        else:
            answer = await execution.query(name[1], words, _ANSWER_S)
        told = {field: answer[field] for field in ("query", "status", "service_ns", "error")}
        packed: bytes = msgpack.packb(
            told | ({"failed": answer["failed"]} if answer.get("failed") else {})
        )
        return packed

    def _finish(self, words: Words, body: bytes) -> Awaitable[bytes]:
        return self._finished(_run_name(words), Issued.of(words), body)

    async def _finished(self, name: RunName, issued: Issued, body: bytes) -> bytes:
        execution = self._desk.running(name)
        if execution is None:
            return _told_off(body, "stale", "this attempt is not under way here")
        await execution.finish(name[1], issued)
        return encode_body(WorkAnswer(accepted=True), json_text=is_json(body))


def _answering(verb: Verb) -> Callable[[Asked], Awaitable[bytes]]:
    """Return an answerer that says what is wrong with a body; what goes wrong later is not it."""

    async def answer(asked: Asked) -> bytes:
        try:
            answering = verb(unpack(asked.body), asked.body)
        except (SchemaError, KeyError, ValueError, TypeError) as error:
            return _told_off(asked.body, "malformed", f"{type(error).__name__}: {error}")
        return await answering

    return answer


def _run_name(words: Words) -> RunName:
    return str(words["evaluation"]), str(words["run"]), int(words["attempt"])


def _told_off(body: bytes, error: str, message: str) -> bytes:
    answer = WorkAnswer(accepted=False, error=error, message=message)
    return encode_body(answer, json_text=is_json(body))
