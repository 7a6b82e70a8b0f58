"""Carries out effects: commands to agents, repeated until they are taken (I/O).

A start refused for good, as what no repeat will change, is repeated a few times and then given up.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any

import msgpack

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.codec import decode_body, encode_body
from schemas.errors import SchemaError
from schemas.plan import WorkAnswer
from schemas.subjects import agent_command
from services.scheduler.effects import Close, Effect, Issue, Start, Stop, order_of
from services.scheduler.state import EvaluationState

_log = logging.getLogger(__name__)
_PATIENCE_S = 5.0
_LAST_TRIES = 5
_PAUSE_S = 1.0
_MOST_REFUSALS = 5
_FOR_NOW = frozenset({"busy", "stale", "stopping"})
"""Refusals that pass: the agent has room again, is found to have started anew, or to be gone."""

Claim = Callable[[Issue], None]
"""Takes on issuing the load of a run that is ready."""

GiveUp = Callable[[Start, str], Awaitable[None]]
"""Ends the attempt of a start that its agent refuses for good, for a cause."""


class Commander:
    """Remembers which effects are done and which are on their way; forgets ended evaluations."""

    def __init__(self, bus: Bus, claim: Claim, give_up: GiveUp) -> None:
        """Command agents over `bus`."""
        self._bus = bus
        self._claim = claim
        self._give_up = give_up
        self._done: dict[str, set[object]] = {}
        self._refusals: dict[str, Counter[Start]] = {}
        self._doing: dict[Effect, asyncio.Task[None]] = {}

    @property
    def on_their_way(self) -> int:
        """How many commands wait for an answer."""
        return len(self._doing)

    def want(self, state: EvaluationState, wanted: list[Effect]) -> None:
        """Carry out what is neither done nor on its way."""
        done = self._done.setdefault(state.evaluation, set())
        for effect in wanted:
            if isinstance(effect, Issue):
                self._claim(effect)
            elif effect not in self._doing and not _keys(effect) <= done:
                self._begin(effect, state)
        if state.is_ended:
            self._forget(state.evaluation)

    def _begin(self, effect: Start | Stop | Close, state: EvaluationState) -> None:
        body = _body(effect, state)
        tries = _LAST_TRIES if state.is_ended else 1
        task = asyncio.get_running_loop().create_task(self._carry_out(effect, body, tries))
        self._doing[effect] = task
        task.add_done_callback(lambda _: self._doing.pop(effect, None))

    async def _carry_out(self, effect: Start | Stop | Close, body: bytes, tries: int) -> None:
        """Ask once, or more often where nobody will want the effect again."""
        verb = type(effect).__name__.lower()
        for each in range(tries):
            if each:
                await asyncio.sleep(_PAUSE_S)
            answer = await self.ask(effect.agent, verb, body)
            if answer is not None and _is_taken(effect, answer):
                if effect.evaluation in self._done:
                    self._done[effect.evaluation] |= _keys(effect)
                return
            _log.info("%s of %s is not taken: %s", verb, effect.evaluation, answer)
            if isinstance(effect, Start) and answer is not None and answer.error not in _FOR_NOW:
                await self._refused(effect, answer)

    async def _refused(self, start: Start, answer: WorkAnswer) -> None:
        """Count a refusal; have the attempt ended once there were too many."""
        refusals = self._refusals.setdefault(start.evaluation, Counter())
        refusals[start] += 1
        if refusals[start] >= _MOST_REFUSALS:
            why = ": ".join(each for each in (answer.error, answer.message) if each)
            cause = f"agent {start.agent} would not start it: {why or 'no reason given'}"
            await self._give_up(start, cause)

    async def ask(self, agent: str, verb: str, body: bytes) -> WorkAnswer | None:
        """Return an agent's answer, or None when there was none."""
        try:
            answer = await self._bus.ask(agent_command(agent, verb), body, timeout_s=_PATIENCE_S)
            return decode_body(WorkAnswer, answer)
        except (BusError, SchemaError) as error:
            _log.info("agent %s did not answer %s: %s", agent, verb, error)
            return None

    async def stop(self, agent: str, evaluation: str, run: str, attempt: int) -> None:
        """Ask an agent once to end an attempt."""
        effect = Stop(agent, evaluation, run, attempt)
        await self.ask(agent, "stop", msgpack.packb(_fields(effect)))

    def forget_all_but(self, evaluations: Container[str]) -> None:
        """Forget what was done for evaluations that others saw to their end."""
        known = self._done.keys() | self._refusals.keys()
        for evaluation in [each for each in known if each not in evaluations]:
            self._forget(evaluation)

    def _forget(self, evaluation: str) -> None:
        self._done.pop(evaluation, None)
        self._refusals.pop(evaluation, None)

    async def close(self) -> None:
        """Give up on what is on its way."""
        doing = list(self._doing.values())
        for task in doing:
            task.cancel()
        await asyncio.gather(*doing, return_exceptions=True)


def _keys(effect: Effect) -> set[object]:
    """Return what must be done for an effect to be; a group started in part is started."""
    if isinstance(effect, Start):
        return {(effect.agent, run, effect.attempt) for run in effect.runs}
    return {effect}


def _is_taken(effect: Effect, answer: WorkAnswer) -> bool:
    """Tell whether an agent has done it, or has nothing to do it to."""
    return answer.accepted or (not isinstance(effect, Start) and answer.error == "unknown")


def _body(effect: Start | Stop | Close, state: EvaluationState) -> bytes:
    if isinstance(effect, Start):
        return encode_body(order_of(state, effect))
    body: bytes = msgpack.packb(_fields(effect))
    return body


def _fields(effect: Stop | Close) -> Mapping[str, Any]:
    if isinstance(effect, Stop):
        return {
            "evaluation": effect.evaluation,
            "run": effect.run,
            "attempt": effect.attempt,
        }
    return {"evaluation": effect.evaluation, "session": effect.session}
