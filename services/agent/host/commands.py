"""The commands an agent answers: `start`, `stop`, `close`; for remote loads `query`, `finish`.

A command is parsed before anything is done for it: what can't be parsed is refused as malformed,
and a fault of the agent's own never is.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgpack
import numpy as np

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.tracing.clock import now_ns
from schemas.encoding.codec import decode_body, encode_body, is_json, unpack
from schemas.encoding.errors import SchemaError
from schemas.plan import WorkAnswer, WorkOrder
from schemas.subjects import agent_command
from services.agent.host.order_queue import OrderQueue
from services.agent.host.remote_queries import failed_answer
from services.agent.host.sessions import SessionKey, Sessions
from services.agent.link.issued_load import IssuedLoad
from services.agent.link.messages import MOST_WAITING, AttemptKey, IssueQuery, StopRun

_ANSWER_S = 600.0
_ACCEPTED = WorkAnswer(accepted=True)

C = TypeVar("C")
Answerer = Callable[[ReceivedCommand], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class FinishCommand:
    """A remote load is through; `load` is what its issuer reports of it."""

    key: AttemptKey
    load: IssuedLoad


@dataclass(frozen=True, slots=True)
class QueryCommand:
    """A remote query; `fault` says what is wrong with it, '' for nothing."""

    query: IssueQuery
    fault: str = ""


class Commands:
    """Answers commands by putting orders and stops into the queue; it waits for no run."""

    def __init__(self, orders: OrderQueue, sessions: Sessions) -> None:
        self._orders, self._sessions = orders, sessions

    async def open(self, bus: Bus, agent: str) -> Mapping[str, str]:
        """Begin to answer over `bus`; return each verb's subject."""
        answerers: Mapping[str, Answerer] = {
            "start": _answerer(parse_start, self._start),
            "stop": _answerer(parse_stop, self._stop),
            "close": _answerer(parse_close, self._close),
            "query": _answerer(parse_query, self._query),
            "finish": _answerer(parse_finish, self._finish),
        }
        subjects = {verb: agent_command(agent, verb) for verb in answerers}
        # Queries wait in the worker, where waiting is measured: it bounds them, not the bus.
        query_limit = 2 * MOST_WAITING
        for verb, subject in subjects.items():
            if verb == "query":
                await bus.answer(
                    subject,
                    answerers[verb],
                    queue=None,
                    limit_pending=query_limit,
                    limit_running=query_limit,
                )
            else:
                await bus.answer(subject, answerers[verb], queue=None)
        return subjects

    async def _start(self, order: WorkOrder) -> WorkAnswer:
        answer, is_new = self._orders.accept(order)
        execution = self._orders.execution
        if not is_new or execution is None or execution.order.evaluation != order.evaluation:
            return answer
        # Nobody waits any more for attempts under way that the new order repeats.
        for run in execution.publisher.open_runs:
            if run in order.runs and execution.order.attempt < order.attempt:
                await execution.stop(run, f"attempt {order.attempt} was ordered")
        return answer

    async def _stop(self, command: StopRun) -> WorkAnswer:
        execution = self._orders.execution_of(command.key)
        if execution is not None:
            await execution.stop(command.key.run, command.reason)
        elif not self._orders.stop_early(command.key, command.reason):
            return _refused("unknown", "no such run is waiting or running")
        return _ACCEPTED

    async def _close(self, key: SessionKey) -> WorkAnswer:
        message = await self._sessions.close_when_idle(key)
        return WorkAnswer(accepted=True, message=message)

    async def _query(self, command: QueryCommand) -> bytes:
        query = command.query
        run, number = query.key.run, query.query
        execution = self._orders.execution_of(query.key)
        if execution is None:
            answer = failed_answer(run, number, "stale: this attempt is not running here")
        elif command.fault:
            answer = failed_answer(run, number, f"malformed query: {command.fault}")
        else:
            answer = await execution.query(query, _ANSWER_S)
        fields: dict[str, object] = {
            "query": number,
            "status": answer.status,
            "service_ns": answer.service_ns,
            "error": answer.error,
        }
        if answer.failed_samples:
            fields["failed"] = answer.failed_samples
        packed: bytes = msgpack.packb(fields)
        return packed

    async def _finish(self, command: FinishCommand) -> WorkAnswer:
        execution = self._orders.execution_of(command.key)
        if execution is None:
            return _refused("stale", "this attempt is not running here")
        await execution.finish(command.key.run, command.load)
        return _ACCEPTED


def parse_start(body: bytes) -> WorkOrder:
    """Return the order of a `start` command. Raises SchemaError."""
    return decode_body(WorkOrder, body)


def parse_stop(body: bytes) -> StopRun:
    """Return a `stop` command.

    Raises SchemaError, KeyError, ValueError, TypeError, OverflowError.
    """
    fields = unpack(body)
    return StopRun(_attempt_key(fields), str(fields.get("reason", "")))


def parse_close(body: bytes) -> SessionKey:
    """Return the session of a `close` command. Raises SchemaError, KeyError."""
    fields = unpack(body)
    return str(fields["evaluation"]), str(fields["session"])


def parse_finish(body: bytes) -> FinishCommand:
    """Return a `finish` command.

    Raises SchemaError, KeyError, ValueError, TypeError, OverflowError.
    """
    fields = unpack(body)
    return FinishCommand(_attempt_key(fields), IssuedLoad.of(fields))


def parse_query(body: bytes) -> QueryCommand:
    """Return a `query` command; one whose samples can't be read has a `fault`.

    Raises SchemaError, KeyError, ValueError, TypeError, OverflowError for a body that names none.
    """
    received_ns, fields = now_ns(), unpack(body)
    key, number = _attempt_key(fields), int(fields["query"])
    try:
        samples = tuple(np.frombuffer(fields["samples"], "<i4").tolist())
        payload = fields.get("payload")
        if payload is not None and len(payload) != len(samples):
            raise ValueError("the numbers of payloads and samples differ")
        block = int(fields.get("block", 0))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        return QueryCommand(IssueQuery(key, number, (), received_ns), str(error))
    payload = None if payload is None else tuple(payload)
    return QueryCommand(IssueQuery(key, number, samples, received_ns, block, payload))


def _attempt_key(fields: Mapping[str, Any]) -> AttemptKey:
    return AttemptKey(str(fields["evaluation"]), str(fields["run"]), int(fields["attempt"]))


def _answerer(
    parse: Callable[[bytes], C], perform: Callable[[C], Awaitable[WorkAnswer | bytes]]
) -> Answerer:
    """Return an answerer that refuses what it can't parse, and encodes answers as they came."""

    async def answer(received: ReceivedCommand) -> bytes:
        try:
            command = parse(received.body)
        except (SchemaError, KeyError, ValueError, TypeError, OverflowError) as error:
            reply: WorkAnswer | bytes = _refused("malformed", f"{type(error).__name__}: {error}")
        else:
            reply = await perform(command)
        if isinstance(reply, bytes):
            return reply
        return encode_body(reply, json_text=is_json(received.body))

    return answer


def _refused(error: str, message: str) -> WorkAnswer:
    return WorkAnswer(accepted=False, error=error, message=message)
