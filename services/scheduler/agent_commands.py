"""Carries out effects: commands to agents, repeated until they are accepted (I/O).

A start that an agent refuses for good is repeated a few times and then given up.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable
from functools import partial
from typing import Any

import msgpack

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.tasks import end_tasks
from schemas.encoding.codec import decode_body, encode_body
from schemas.encoding.errors import SchemaError
from schemas.plan import WorkAnswer
from schemas.subjects import agent_command
from services.scheduler.evaluation.effects import Close, Effect, Issue, Start, Stop, order_of
from services.scheduler.evaluation.state import EvaluationState

_log = logging.getLogger(__name__)
_ANSWER_TIMEOUT_S = 5.0
_LAST_TRIES = 5
_PAUSE_S = 1.0
_MAX_REFUSALS = 5
_PASSING_REFUSALS = frozenset({"busy", "stale", "stopping"})
"""Refusals that pass: the agent is full, or is about to be found restarted or gone."""

Claim = Callable[[Issue], None]
"""Takes on issuing the load of a run that is ready."""

GiveUp = Callable[[Start, str], Awaitable[None]]
"""Ends the attempt of a start that its agent refuses for good, with a cause."""


async def ask_agent(bus: Bus, agent: str, verb: str, body: bytes) -> WorkAnswer | None:
    """Return the answer of an `agent` to a command over `bus`, or None without one.

    `verb` names the command and `body` is its encoded message.
    """
    try:
        answer = await bus.ask(agent_command(agent, verb), body, timeout_s=_ANSWER_TIMEOUT_S)
        return decode_body(WorkAnswer, answer)
    except (BusError, SchemaError) as error:
        _log.info("agent %s did not answer %s: %s", agent, verb, error)
        return None


class AgentCommands:
    """Remembers which effects are done and which are under way; forgets ended evaluations."""

    def __init__(self, bus: Bus, claim: Claim, give_up: GiveUp) -> None:
        """Command agents over `bus`; `claim` and `give_up` take what is not a command."""
        self._bus = bus
        self._claim = claim
        self._give_up = give_up
        #: by evaluation, what need not be commanded again: see `_keys`
        self._accepted: dict[str, set[object]] = {}
        self._refusals: dict[str, Counter[Start]] = {}
        self._tasks: dict[Effect, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> int:
        """The number of commands that wait for an answer."""
        return len(self._tasks)

    def carry_out(self, state: EvaluationState, effects: Iterable[Effect]) -> None:
        """Carry out those effects of a state that are neither done nor under way."""
        accepted = self._accepted.setdefault(state.evaluation, set())
        for effect in effects:
            if isinstance(effect, Issue):
                self._claim(effect)
                continue
            if effect in self._tasks or _keys(effect) <= accepted:
                continue
            if isinstance(effect, Start):
                body = encode_body(order_of(state, effect))
            else:
                body = msgpack.packb(_fields(effect))
            # Nobody asks for the effects of an ended evaluation again.
            tries = _LAST_TRIES if state.is_ended else 1
            task = asyncio.get_running_loop().create_task(self._send(effect, body, tries))
            self._tasks[effect] = task
            task.add_done_callback(partial(self._tasks.pop, effect))  # the task is pop's default
        if state.is_ended:
            self._forget(state.evaluation)

    async def _send(self, effect: Start | Stop | Close, body: bytes, tries: int) -> None:
        """Send a command until its agent accepts it, at most `tries` times."""
        verb = type(effect).__name__.lower()
        for number in range(tries):
            if number:
                await asyncio.sleep(_PAUSE_S)
            answer = await ask_agent(self._bus, effect.agent, verb, body)
            if answer and _has_effect(effect, answer):
                self._accepted.get(effect.evaluation, set()).update(_keys(effect))
                return
            place = _place_of(effect)
            _log.info("%s of %s is not accepted: %s", verb, effect.evaluation, answer, extra=place)
            if answer and isinstance(effect, Start):
                await self._count_refusal(effect, answer)

    async def _count_refusal(self, start: Start, answer: WorkAnswer) -> None:
        """Count a refusal of a start that does not pass; give the attempt up after too many."""
        if answer.error in _PASSING_REFUSALS:
            return
        refusals = self._refusals.setdefault(start.evaluation, Counter())
        refusals[start] += 1
        if refusals[start] >= _MAX_REFUSALS:
            reason = ": ".join(filter(None, (answer.error, answer.message)))
            cause = f"agent {start.agent} would not start it: {reason or 'no reason given'}"
            await self._give_up(start, cause)

    async def stop(self, agent: str, evaluation: str, run: str, attempt: int) -> None:
        """Ask an `agent` once to end an `attempt` of a `run` of an `evaluation`."""
        effect = Stop(agent, evaluation, run, attempt)
        await ask_agent(self._bus, agent, "stop", msgpack.packb(_fields(effect)))

    def forget_all_but(self, evaluations: Container[str]) -> None:
        """Forget evaluations that other instances saw to their end."""
        remembered = self._accepted.keys() | self._refusals.keys()
        for evaluation in remembered:
            if evaluation not in evaluations:
                self._forget(evaluation)

    def _forget(self, evaluation: str) -> None:
        self._accepted.pop(evaluation, None)
        self._refusals.pop(evaluation, None)

    async def close(self) -> None:
        """Cancel the commands under way."""
        await end_tasks(self._tasks.values())


def _keys(effect: Effect) -> set[object]:
    """Return what must be accepted for an effect to be done, for a group run by run.

    So a group of which some runs were started before is commanded again.
    """
    if isinstance(effect, Start):
        return {(effect.agent, run, effect.attempt) for run in effect.runs}
    return {effect}


def _has_effect(effect: Effect, answer: WorkAnswer) -> bool:
    """Tell whether an agent's answer says that a command is done.

    An agent that does not know what it is to stop or close has nothing left of it.
    """
    is_gone = answer.error == "unknown" and not isinstance(effect, Start)
    return answer.accepted or is_gone


def _place_of(effect: Start | Stop | Close) -> dict[str, str]:
    """Return what a line of the log says of an effect beside its event; a close is of no run."""
    place = {"evaluation": effect.evaluation, "agent": effect.agent}
    if isinstance(effect, Close):
        return place
    runs = effect.runs if isinstance(effect, Start) else (effect.run,)
    return place | {"run": ",".join(runs)}


def _fields(effect: Stop | Close) -> dict[str, Any]:
    if isinstance(effect, Stop):
        return {"evaluation": effect.evaluation, "run": effect.run, "attempt": effect.attempt}
    return {"evaluation": effect.evaluation, "session": effect.session}
