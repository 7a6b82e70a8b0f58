"""What the scheduler answers: `evaluate`, `cancel`, `evaluations`, `evaluation`."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import msgpack

from mlscope.bus.bus import Asked
from mlscope.bus.errors import BusError
from schemas.codec import decode_body, encode_body, is_json, unpack
from schemas.errors import MalformedMessage
from schemas.evaluation import EvaluationRequested
from schemas.identity import keyed_evaluation_id, new_evaluation_id
from schemas.message import Fact, Message
from schemas.request import (
    Accepted,
    Cancel,
    Evaluate,
    ListEvaluations,
    Refused,
    ShowEvaluation,
)
from schemas.status import EvaluationList
from services.scheduler.board import Board
from services.scheduler.decide import decide_cancel
from services.scheduler.errors import RequestRefused, Undecided, unsatisfiable
from services.scheduler.fleet import Fleet
from services.scheduler.matching import match
from services.scheduler.planning import check_loads, plan
from services.scheduler.recording import Recorder
from services.scheduler.resolving import check_collectors, samples_of
from services.scheduler.state import EvaluationState
from services.scheduler.status import status_of

_WITHIN_S = 4.0


class Knowing(Protocol):
    """What answers know of the world."""

    def fleet(self) -> Fleet:
        """Return the world as it is known now."""
        ...

    async def catch_up(self) -> None:
        """Wait, not long, until all that was said by now is known. Raises BusError."""
        ...


class Answers:
    """Answers commands from the board and the log."""

    def __init__(
        self,
        board: Board,
        recorder: Recorder,
        world: Knowing,
        ended: Callable[[EvaluationState], None],
        *,
        most_bytes: int,
    ) -> None:
        """Tell `ended` of an evaluation that a command ended, for its agents to hear of it.

        Requests above `most_bytes` are refused.
        """
        self._board = board
        self._recorder = recorder
        self._world = world
        self._ended = ended
        self._most_bytes = most_bytes
        self._weighing = 0
        self._verbs: Mapping[str, Callable[[bytes], Awaitable[Message]]] = MappingProxyType(
            {
                Evaluate.verb: self._evaluate,
                Cancel.verb: self._cancel,
                ListEvaluations.verb: self._list,
                ShowEvaluation.verb: self._show,
            }
        )

    async def answer(self, asked: Asked) -> bytes:
        """Return the answer to a command in the command's own encoding."""
        verb = self._verbs[asked.subject.rsplit(".", 1)[-1]]
        try:
            # Who asks gives up after some seconds, the bus on a server that stores nothing later.
            async with asyncio.timeout(_WITHIN_S):
                answer = await verb(asked.body)
        except TimeoutError:
            answer = _too_late()
        except MalformedMessage as error:
            answer = _malformed(error)
        except RequestRefused as error:
            answer = error.refused
        except Undecided:
            answer = Refused(error="busy", message="too many write to this evaluation; ask again")
        except BusError as error:
            answer = Refused(error="unavailable", message=str(error) or "the log is away")
        return encode_body(answer, json_text=is_json(asked.body))

    async def _evaluate(self, body: bytes) -> Message:
        if len(body) > self._most_bytes:
            raise await asyncio.to_thread(_too_large, body, self._most_bytes)
        request = decode_body(Evaluate, body)
        if request.key:
            evaluation = keyed_evaluation_id(request.key)
            known = await self._recorder.current(evaluation)
            if known.is_known:
                return self._repeated(known, request)
        else:
            evaluation = new_evaluation_id()
        if len(self._board.open) + self._weighing >= self._board.most_open:
            message = f"{self._board.most_open} evaluations are open; ask again later"
            return Refused(error="busy", message=message)
        self._weighing += 1
        try:
            known = await self._record(evaluation, request)
        finally:
            self._weighing -= 1
        return self._same(known, request, is_repeat=False)

    async def _record(self, evaluation: str, request: Evaluate) -> EvaluationState:
        """Record a request that can be met; return what its evaluation was requested as."""
        await self._check(request)
        fact = EvaluationRequested(
            evaluation=evaluation, request=request, requested_ns=time.time_ns()
        )
        await self._recorder.record(EvaluationState(), [fact])
        return await self._recorder.current(evaluation)

    async def _check(self, request: Evaluate) -> None:
        """Raise RequestRefused for what can't be done, by all that was known when it was asked."""
        fleet = self._world.fleet()
        try:
            await asyncio.to_thread(check, request, fleet)
        except RequestRefused:
            with contextlib.suppress(BusError):
                await self._world.catch_up()
            later = self._world.fleet()
            if later.catalog is fleet.catalog:
                raise
            await asyncio.to_thread(check, request, later)

    def _repeated(self, known: EvaluationState, request: Evaluate) -> Message:
        return self._same(known, request, is_repeat=True)

    def _same(self, known: EvaluationState, request: Evaluate, *, is_repeat: bool) -> Message:
        """Accept a request under its key, unless the key stands for another request."""
        if known.request == request or _bytes(known.request) == _bytes(request):
            return self._accepted(known.evaluation, repeated=is_repeat)
        return Refused(
            error="conflict",
            message=f"the key stands for another request, evaluation {known.evaluation}",
            field="key",
            found=request.key,
            allowed="a key of its own, or the request as it was first sent",
        )

    def _accepted(self, evaluation: str, *, repeated: bool = False) -> Accepted:
        address = f"{self._board.pages}{evaluation}"
        return Accepted(evaluation=evaluation, address=address, repeated=repeated)

    async def _cancel(self, body: bytes) -> Message:
        wish = decode_body(Cancel, body)
        before = await self._known(wish.evaluation)
        if before.state == "cancelled":
            return self._accepted(wish.evaluation, repeated=True)
        if before.is_ended:
            raise _ended(before)

        async def cancelled(state: EvaluationState) -> list[Fact]:
            return [] if state.is_ended else decide_cancel(state, wish.reason)

        state = await self._recorder.settle(wish.evaluation, cancelled)
        self._ended(state)
        if state.state != "cancelled":
            raise _ended(state)
        return self._accepted(wish.evaluation)

    async def _list(self, body: bytes) -> Message:
        wish = decode_body(ListEvaluations, body)
        found = self._board.listed(wish, self._world.fleet().catalog)
        return EvaluationList(evaluations=tuple(found))

    async def _show(self, body: bytes) -> Message:
        wish = decode_body(ShowEvaluation, body)
        state = await self._known(wish.evaluation)
        return status_of(state, f"{self._board.pages}{wish.evaluation}")

    async def _known(self, evaluation: str) -> EvaluationState:
        state = await self._recorder.current(evaluation)
        if not state.is_known:
            raise RequestRefused(
                Refused(
                    error="unknown",
                    message=f"no evaluation {evaluation}",
                    field="evaluation",
                    found=evaluation,
                )
            )
        return state


def check(request: Evaluate, fleet: Fleet) -> None:
    """Raise RequestRefused for what can't be done, or by nobody and the request won't wait."""
    found = match(request, fleet.catalog, fleet.loads, time.time_ns())
    check_collectors(request, fleet.catalog)
    if found.agents:
        plan(request, found, fleet.catalog, fleet.shapes)
        return
    if not request.wait_s:
        raise unsatisfiable(found.reasons)
    check_loads(request, samples_of(found.dataset), fleet.catalog, fleet.shapes)


def _malformed(error: MalformedMessage) -> Refused:
    return Refused(
        error="malformed",
        message=str(error),
        field=error.field,
        found=error.found,
        allowed=error.expected,
    )


def _bytes(request: Evaluate | None) -> bytes:
    """Return a request as bytes, in which a NaN equals itself."""
    return encode_body(request) if request else b""


def _too_late() -> Refused:
    message = f"the log took nothing for {_WITHIN_S:g} s; ask again, best under the same key"
    return Refused(error="unavailable", message=message)


def _too_large(body: bytes, most_bytes: int) -> RequestRefused:
    """Refuse a body, naming the field that takes most of it."""
    sizes = {name: len(msgpack.packb(value)) for name, value in unpack(body).items()}
    field = max(sizes, key=lambda name: sizes[name], default="")
    fix = "publish an inline manifest and name it, or raise MLSCOPE_MAX_REQUEST_BYTES"
    size = f"the request is {len(body)} bytes, most of them in this field"
    return RequestRefused(
        Refused(
            error="invalid",
            message=f"{field}: {size}; allowed: {most_bytes} bytes; {fix}",
            field=field,
            found=f"{len(body)} bytes",
            allowed=f"{most_bytes} bytes",
        )
    )


def _ended(state: EvaluationState) -> RequestRefused:
    message = f"evaluation {state.evaluation} has ended: {state.state}"
    return RequestRefused(
        Refused(error="conflict", message=message, field="evaluation", found=state.state)
    )
