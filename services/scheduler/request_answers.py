"""Answers the commands `evaluate`, `match`, `cancel`, `evaluations` and `evaluation` (I/O)."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

import msgpack

from mlscope.bus.errors import BusError, Unreachable
from mlscope.bus.records import ReceivedCommand
from mlscope.evaluation.status import status_of
from mlscope.load.scenarios import BUILT_IN
from mlscope.load.stop_rule import with_stop_rule
from schemas.encoding.codec import decode_body, encode_body, is_json, unpack
from schemas.encoding.errors import MalformedMessage
from schemas.evaluation import EvaluationRequested
from schemas.message import Fact, Message
from schemas.people import Asker, PersonRefused
from schemas.request import (
    Accepted,
    Cancel,
    Evaluate,
    ListEvaluations,
    Match,
    Refused,
    ShowEvaluation,
)
from schemas.subjects import asker_of
from schemas.values.identity import keyed_evaluation_id, new_evaluation_id
from services.scheduler.decision_log import DecisionLog
from services.scheduler.errors import RequestRefused, Undecided, invalid, unsatisfiable
from services.scheduler.evaluation.decide import decide_cancel
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import check_plan
from services.scheduler.placement.preview import preview
from services.scheduler.placement.resolving import check_collectors
from services.scheduler.placement.sent import as_recorded, with_own_versions

_TIMEOUT_S = 4.0
"""A requester gives up after some seconds, the bus on a server that stores nothing only later."""


_log = logging.getLogger(__name__)
_MINUTE_NS = 60_000_000_000
_NOTED = ("forbidden", "exhausted")
MOST_LABEL_CHARACTERS = 16_384
"""Refusals that say something about who asks."""
T = TypeVar("T")


class FleetSource(Protocol):
    """Knows the fleet."""

    def fleet(self) -> Fleet:
        """Return the fleet as it is known now."""
        ...

    async def catch_up(self) -> None:
        """Wait, not long, until all that was published by now is known. Raises BusError."""
        ...


class RequestAnswers:
    """Answers commands from the index of evaluations and the log."""

    def __init__(
        self,
        index: EvaluationIndex,
        log: DecisionLog,
        fleet_source: FleetSource,
        on_end: Callable[[EvaluationState], None],
        *,
        max_bytes: int,
        budget_s: float,
    ) -> None:
        """Answer from `index` and `log`, and check requests against `fleet_source`.

        `on_end` is called with the state of an evaluation that a command ended. Requests above
        `max_bytes` are refused; one without a stop rule has `budget_s` for each load.
        """
        self._index = index
        self._log = log
        self._fleet_source = fleet_source
        self._on_end = on_end
        self._max_bytes, self._budget_s = max_bytes, budget_s
        self._foreign_loads = ThreadPoolExecutor(1, "foreign-loads")
        #: requests that are being checked and are not open yet, by who asks
        self._checking: Counter[str] = Counter()
        self._verbs: Mapping[str, Callable[[bytes, Asker], Awaitable[Message]]] = MappingProxyType(
            {
                Evaluate.verb: self._evaluate,
                Match.verb: self._match,
                Cancel.verb: self._cancel,
                ListEvaluations.verb: self._list,
                ShowEvaluation.verb: self._show,
            }
        )

    async def answer(self, command: ReceivedCommand) -> bytes:
        """Return the answer to a command in the command's own encoding."""
        verb = self._verbs[command.subject.rsplit(".", 1)[-1]]
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await verb(command.body, asker_of(command.subject))
        except TimeoutError:
            message = (
                f"no answer within {_TIMEOUT_S:g} s: the scheduler is overloaded, its log accepts "
                "nothing, or a scenario of another package takes long to make its load; try again, "
                "with the same key"
            )
            answer = Refused(error="unavailable", message=message)
        except MalformedMessage as error:
            answer = Refused(
                error="malformed",
                message=str(error),
                field=error.field,
                found=error.found,
                allowed=error.expected,
            )
        except RequestRefused as error:
            answer = error.refused
        except Undecided:
            answer = Refused(
                error="busy", message="the evaluation is being changed by others; try again"
            )
        except BusError as error:
            answer = Refused(error="unavailable", message=str(error) or "the log is unavailable")
        await self._note_refusal(command, answer)
        return encode_body(answer, json_text=is_json(command.body))

    async def _note_refusal(self, command: ReceivedCommand, answer: Message) -> None:
        """Record that a person may not do what a command asks for."""
        asker = asker_of(command.subject)
        if asker.name and isinstance(answer, Refused) and answer.error in _NOTED:
            verb = command.subject.rsplit(".", 1)[-1]
            refused = PersonRefused(person=asker.name, verb=verb, reason=answer.message)
            # One a minute of each kind: the stream forgets the oldest when it is full.
            minute = time.time_ns() // _MINUTE_NS
            try:
                await self._log.note(refused, f"{asker.name}-{verb}-{answer.error}-{minute}")
            except BusError as error:
                _log.warning("a refusal of %s is not recorded: %s", asker.name, error)

    async def _evaluate(self, body: bytes, asker: Asker) -> Message:
        if len(body) > self._max_bytes:
            raise await asyncio.to_thread(too_large, body, self._max_bytes)
        request = with_stop_rule(decode_body(Evaluate, body), self._budget_s)
        evaluation = new_evaluation_id()
        if request.key:
            # A key is its person's own: nobody meets another's evaluation by it.
            key = f"{asker.name}\n{request.key}" if asker.name else request.key
            evaluation = keyed_evaluation_id(key)
            state = await self._log.current(evaluation)
            if state.is_known:
                return self._accepted(state, request, is_repeat=True)
        if len(self._index.open) + self._checking.total() >= self._index.max_open:
            message = f"{self._index.max_open} evaluations are open; try again later"
            return Refused(error="busy", message=message)
        checking = self._checking[asker.name]
        now_ns = time.time_ns() if self._index.now_ns is None else self._index.now_ns()
        if refused := self._index.quotas.refusal(asker, checking, now_ns, len(body)):
            return refused
        self._checking[asker.name] += 1
        try:
            await self._check(request)
            catalog = self._fleet_source.fleet().catalog
            fact = EvaluationRequested(
                evaluation=evaluation,
                request=await asyncio.to_thread(with_own_versions, request, catalog),
                requested_ns=time.time_ns(),
                requested_by=asker.name,
            )
            position = await self._log.record(EvaluationState(), [fact])
            state = await self._log.current(evaluation, position)
        finally:
            self._checking[asker.name] -= 1
        if not state.is_known:
            raise Unreachable(f"evaluation {evaluation} is recorded, but cannot be read yet")
        return self._accepted(state, request, is_repeat=False)

    async def _check(self, request: Evaluate) -> None:
        """Raise RequestRefused for a request that cannot be met.

        A refusal may be due to a catalog that lags behind. So it stands only once the catalog has
        caught up, and the request is checked again only if the catalog has changed.
        """
        fleet = self._fleet_source.fleet()
        try:
            await self._in_thread(check_request, request, fleet)
        except RequestRefused:
            with contextlib.suppress(BusError):
                await self._fleet_source.catch_up()
            current = self._fleet_source.fleet()
            if current.catalog is fleet.catalog:
                raise
            await self._in_thread(check_request, request, current)

    async def _in_thread(
        self, check: Callable[..., T], request: Evaluate, fleet: Fleet, *others: object
    ) -> T:
        """Return what `check` returns for a `request`, a `fleet` and `others`, from a thread.

        A scenario of another package may make a large load for seconds. All requests for such
        scenarios share one thread, so that everything else finds one.
        """
        are_built_in = all(choice.name in BUILT_IN for choice in request.scenarios)
        executor = None if are_built_in else self._foreign_loads
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(executor, check, request, fleet, *others)

    def _accepted(self, state: EvaluationState, request: Evaluate, *, is_repeat: bool) -> Message:
        """Accept a request as its evaluation, unless its key is that of another request.

        The `request` is as it was sent: manifests may have other versions in the record.
        """
        repeated = as_recorded(request, state.request)
        if state.request == repeated or _encoded(state.request) == _encoded(repeated):
            address = f"{self._index.pages}{state.evaluation}"
            return Accepted(evaluation=state.evaluation, address=address, repeated=is_repeat)
        return Refused(
            error="conflict",
            message=f"the key was used for another request, evaluation {state.evaluation}",
            field="key",
            found=request.key,
            allowed="a key of its own, or the request as it was first sent",
        )

    async def _match(self, body: bytes, asker: Asker) -> Message:
        if len(body) > self._max_bytes:
            raise await asyncio.to_thread(too_large, body, self._max_bytes)
        request = with_stop_rule(decode_body(Match, body), self._budget_s)
        fleet = self._fleet_source.fleet()
        expected = partial(self._index.durations.expected, asker=asker)
        return await self._in_thread(preview, request, fleet, time.time_ns(), expected)

    async def _cancel(self, body: bytes, asker: Asker) -> Message:
        command = decode_body(Cancel, body)
        address = f"{self._index.pages}{command.evaluation}"
        before = await self._existing(command.evaluation, asker)
        if not asker.may_change(before.requested_by):
            who = before.requested_by or "the cluster's user"
            message = f"{who} requested {command.evaluation}: only they and owners may cancel it"
            raise RequestRefused(Refused(error="forbidden", message=message, field="evaluation"))
        if before.state == "cancelled":
            return Accepted(evaluation=command.evaluation, address=address, repeated=True)
        if before.is_ended:
            raise _has_ended(before)

        async def cancel(state: EvaluationState) -> list[Fact]:
            return [] if state.is_ended else decide_cancel(state, command.reason, asker.name)

        state = await self._log.settle(command.evaluation, cancel)
        self._on_end(state)
        if state.state != "cancelled":
            raise _has_ended(state)
        return Accepted(evaluation=command.evaluation, address=address)

    async def _list(self, body: bytes, asker: Asker) -> Message:
        command = decode_body(ListEvaluations, body)
        return self._index.listed(command, self._fleet_source.fleet().catalog, asker)

    async def _show(self, body: bytes, asker: Asker) -> Message:
        command = decode_body(ShowEvaluation, body)
        state = await self._existing(command.evaluation, asker)
        status = status_of(state, f"{self._index.pages}{command.evaluation}")
        return status.model_copy(update={"unread_facts": self._log.unread(command.evaluation)})

    async def _existing(self, evaluation: str, asker: Asker) -> EvaluationState:
        """Return the state of an `evaluation`; one that `asker` may not see is unknown."""
        state = await self._log.current(evaluation)
        is_visible = asker.may_see(state.requested_by, is_private=state.is_private)
        if not (state.is_known and is_visible):
            raise RequestRefused(
                Refused(
                    error="unknown",
                    message=f"no evaluation {evaluation}",
                    field="evaluation",
                    found=evaluation,
                )
            )
        return state


def check_request(request: Evaluate, fleet: Fleet) -> None:
    """Raise RequestRefused for a request that cannot be planned.

    One that no agent fits is refused only if it does not wait for an agent (`wait_s`).
    """
    check_labels(request.labels)
    matched = match(request, fleet.catalog, fleet.loads, time.time_ns())
    check_collectors(request, fleet.catalog)
    if not matched.agents and not request.wait_s:
        raise unsatisfiable(matched.reasons)
    check_plan(request, matched, fleet.catalog, fleet.shapes)


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise RequestRefused for labels that are too long to stay in memory for lists."""
    count = sum(len(name) + len(value) for name, value in labels.items())
    if count > MOST_LABEL_CHARACTERS:
        allowed = f"{MOST_LABEL_CHARACTERS} characters of all names and values; shorten some"
        raise invalid("labels", f"{count} characters", allowed)


def _encoded(request: Evaluate | None) -> bytes:
    """Return a request as bytes, in which a NaN equals itself."""
    return encode_body(request) if request else b""


def too_large(body: bytes, max_bytes: int) -> RequestRefused:
    """Return the refusal of a body above `max_bytes`, naming its largest field."""
    sizes = {name: len(msgpack.packb(value)) for name, value in unpack(body).items()}
    field = max(sizes, key=lambda name: sizes[name], default="")
    fix = "publish an inline manifest and name it, or raise MLSCOPE_MAX_REQUEST_BYTES"
    size = f"the request is {len(body)} bytes, most of them in this field"
    return RequestRefused(
        Refused(
            error="invalid",
            message=f"{field}: {size}; allowed: {max_bytes} bytes; {fix}",
            field=field,
            found=f"{len(body)} bytes",
            allowed=f"{max_bytes} bytes",
        )
    )


def _has_ended(state: EvaluationState) -> RequestRefused:
    message = f"evaluation {state.evaluation} has ended: {state.state}"
    return RequestRefused(
        Refused(error="conflict", message=message, field="evaluation", found=state.state)
    )
