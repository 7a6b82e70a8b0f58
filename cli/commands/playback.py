"""An agent that plays a bundle back: takes orders, answers with facts measured elsewhere."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cli.commands.bundle import Bundle
from cli.commands.planning import PRESUMED_COLLECTORS, PRESUMED_DEPTH
from cli.failures import Misused
from mlscope.bus.bus import Asked, Bus
from mlscope.bus.errors import BusError
from schemas.agent import AgentAnnounced, AgentLeft, Announcement, CollectorFacts
from schemas.codec import decode_body, encode_body, is_json
from schemas.errors import SchemaError
from schemas.level import Level
from schemas.message import Fact, derived_id
from schemas.plan import SessionPlan, WorkAnswer, WorkOrder
from schemas.run import RunCompleted, RunFailed
from schemas.subjects import agent_command
from services.agent.errors import BundleBroken
from services.agent.leasing import Tenure
from services.agent.outbox import BusSink
from services.agent.telling import Telling

_COUNTERS = CollectorFacts(name="recorded", levels=(Level.HARDWARE,))

_RunKey = tuple[int, str, str, int, str, int]
"""Batch size, variant, which opening, group, scenario and the level."""
_Recorded = Mapping[_RunKey, list[tuple[Mapping[str, Any], str]]]
"""The scenario's parameters and the names of runs."""


class Playback:
    """One machine's agent for as long as `present` lasts."""

    def __init__(self, bus: Bus, bundle: Bundle, heartbeat_s: float, *, key: str = "") -> None:
        """Take the agent's connection, the bundle, how often to renew its lease, whom it serves.

        `key` is that of the one request it is there for.
        """
        self._key = key
        self._bus, self._bundle, self._heartbeat_s = bus, bundle, heartbeat_s
        self._incarnation = secrets.token_hex(8)
        self._tenure = Tenure(bus, bundle.agent, self._incarnation)
        self._evaluation: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._orders: asyncio.Queue[WorkOrder] = asyncio.Queue()
        self._accepted: set[tuple[str, int]] = set()
        self._recorded = _recorded_in(bundle)
        #: set when an order asks for what the bundle does not hold, or no longer
        self.gap: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def expect(self, evaluation: str) -> None:
        """Take orders of this evaluation and of no other."""
        self._evaluation.set_result(evaluation)

    @asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """Be an agent of the catalog while inside. Raises NameTaken when one of its name lives."""
        agent = self._bundle.agent
        await self._tenure.claim(_unknown, self._heartbeat_s / 4)
        for verb in ("start", "stop", "close"):
            answerer = self._start if verb == "start" else _agreed
            await self._bus.answer(agent_command(agent, verb), answerer, queue=None)
        said = AgentAnnounced(agent=agent, announcement=self._announcement())
        await self._bus.publish(said, id=derived_id(self._incarnation, "announced"))
        tasks = [asyncio.create_task(self._keep_lease()), asyncio.create_task(self._play())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(BusError):
                left = AgentLeft(agent=agent, incarnation=self._incarnation)
                await self._bus.publish(left, id=derived_id(self._incarnation, "left"))
                await self._tenure.release()

    def _announcement(self) -> Announcement:
        """Return the machine as it was, tracing as deep as its plan presumed: it plans alike.

        Where it has runs of counters it reads counters, on whatever device.
        """
        runtimes = tuple(
            each.model_copy(update={"deepest_level": PRESUMED_DEPTH})
            for each in self._bundle.announcement.runtimes
        )
        kinds = {session.variant for session in self._bundle.plan.sessions}
        recorded = (_COUNTERS,) if "counters" in kinds else ()
        return self._bundle.announcement.model_copy(
            update={
                "incarnation": self._incarnation,
                "runtimes": runtimes,
                "collectors": (*PRESUMED_COLLECTORS, *recorded),
                "reserved_for": self._key,
            }
        )

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            with contextlib.suppress(BusError):
                await self._tenure.renew(())

    async def _start(self, asked: Asked) -> bytes:
        try:
            order = decode_body(WorkOrder, asked.body)
        except SchemaError as error:
            answer = WorkAnswer(accepted=False, error="malformed", message=str(error))
        else:
            answer = await self._taken(order)
        return encode_body(answer, json_text=is_json(asked.body))

    async def _taken(self, order: WorkOrder) -> WorkAnswer:
        async with asyncio.timeout(self._heartbeat_s):
            evaluation = await asyncio.shield(self._evaluation)
        if order.evaluation != evaluation:
            return WorkAnswer(accepted=False, error="busy", message="plays back another one")
        recorded = self._recorded_of(order)
        missing = [run for run in order.runs if not self._bundle.holds(recorded[run])]
        if missing:
            self._note(f"the bundle holds no {missing[0]}: planned by another version")
            return WorkAnswer(accepted=False, error="unknown", message=f"no {missing[0]} in it")
        key = (",".join(order.runs), order.attempt)
        if key not in self._accepted:
            self._accepted.add(key)
            self._orders.put_nowait(order)
        return WorkAnswer(accepted=True)

    def _note(self, gap: str) -> None:
        if not self.gap.done():
            self.gap.set_result(gap)

    async def _play(self) -> None:
        sink = BusSink(self._bus)
        try:
            while True:
                order = await self._orders.get()
                await self._tell(order, Telling(order, sink))
        except (BundleBroken, BusError) as error:
            self._note(str(error))

    async def _tell(self, order: WorkOrder, telling: Telling) -> None:
        recorded = self._recorded_of(order)
        for run in order.runs:
            facts = self._bundle.facts(recorded[run])
            while fact := await asyncio.to_thread(next, facts, None):
                await _say(telling, order, run, fact)

    def _recorded_of(self, order: WorkOrder) -> dict[str, str]:
        """Return each run's name when what is planned of it was measured, or ''."""
        return {
            run: _named(self._recorded.get(key, []), parameters)
            for run, key, parameters in _keys([order.session])
        }


def _unknown(_: str) -> bool:
    """Tell that nothing is known of another start: its lease is waited for."""
    return False


def _recorded_in(bundle: Bundle) -> _Recorded:
    """Return a bundle's runs by what they are. Raises Misused where two are the same."""
    recorded: dict[_RunKey, list[tuple[Mapping[str, Any], str]]] = {}
    for run, key, parameters in _keys(bundle.plan.sessions):
        alike = recorded.setdefault(key, [])
        for told, other in alike:
            if told == parameters:
                raise Misused(f"{bundle.path}: runs {other} and {run} can't be told apart")
        alike.append((parameters, run))
    return recorded


def _named(alike: Sequence[tuple[Mapping[str, Any], str]], planned: Mapping[str, Any]) -> str:
    """Return the run of these parameters, or the one that leaves some of them out, or ''.

    A catalog fills in what a plan that was made without its scenario does not say.
    """
    same = [run for told, run in alike if told == planned]
    filled = [run for told, run in alike if told.items() <= planned.items()]
    return same[0] if same else filled[0] if len(filled) == 1 else ""


def _keys(sessions: Iterable[SessionPlan]) -> Iterator[tuple[str, _RunKey, Mapping[str, Any]]]:
    """Yield each run's name, what makes it the run it is, and its scenario's parameters."""
    for session in sessions:
        # Every opening of a model is a session; of others there is one a size and variant.
        opening = session.session if session.variant == "cold" else ""
        apart = (session.batch_size, session.variant, opening)
        for run in session.runs:
            yield run.run, (*apart, run.group, run.scenario, run.level), run.parameters


async def _say(telling: Telling, order: WorkOrder, run: str, fact: Fact) -> None:
    """Say a fact of the bundle as a fact of this order's evaluation and attempt."""
    told = fact.model_copy(
        update={
            "evaluation": order.evaluation,
            "run": run,
            "attempt": order.attempt,
            "agent": order.agent,
        }
    )
    if isinstance(told, RunCompleted | RunFailed):
        await telling.outcome(told)
    else:
        await telling.batch(told)  # type: ignore[arg-type]


async def _agreed(asked: Asked) -> bytes:
    return encode_body(WorkAnswer(accepted=True), json_text=is_json(asked.body))
