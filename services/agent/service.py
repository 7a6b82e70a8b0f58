"""The loop around it all: announces the agent, holds its lease, takes orders, says what came."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgpack

from mlscope.assets.opening import AssetSettings
from mlscope.bus.bus import Asked, Bus, ServiceFacts
from mlscope.bus.errors import BusError
from mlscope.bus.permissions import agent_inbox
from schemas.agent import AgentAnnounced, AgentLeft
from schemas.codec import decode_body, encode_body, is_json, unpack
from schemas.errors import SchemaError
from schemas.message import derived_id
from schemas.plan import WorkAnswer, WorkOrder
from schemas.subjects import agent_command
from services.agent.bringing import Goods, bring_for
from services.agent.channel import Words
from services.agent.control import MOST_WAITING
from services.agent.errors import AgentError, Stopped, WorkerDied
from services.agent.execution import Execution
from services.agent.folders import OwnFolder, clear_dead, own_folder
from services.agent.issued import Issued
from services.agent.leasing import Claim, Tenure
from services.agent.machine import announcement, package_version
from services.agent.outbox import BusSink
from services.agent.process import WorkerLimits
from services.agent.sessions import Sessions, session_key
from services.agent.state import Ended, Event, Orders, Stopping, decide_start, evolve
from services.agent.telling import Telling

MOST_OPEN_ORDERS = 64
_ANSWER_S = 600.0
_LOOK_S = 0.2
_log = logging.getLogger(__name__)


class AgentSettings(AssetSettings, Protocol):
    """What an agent needs to know; `mlscope.settings.Settings` has it."""

    @property
    def agent_id(self) -> str:
        """The agent's name, unique in a fleet."""
        ...

    @property
    def may_number_agent(self) -> bool:
        """Whether the agent may add a number to its name where that is taken."""
        ...

    @property
    def agent_labels(self) -> Mapping[str, str]:
        """What requests may match on."""
        ...

    @property
    def agent_image(self) -> str:
        """The container image it runs in."""
        ...

    @property
    def agent_predictors(self) -> tuple[str, ...]:
        """Frameworks to offer; none named: all."""
        ...

    @property
    def allow_inline_python(self) -> bool:
        """Whether its owner allows steps brought as Python text."""
        ...

    @property
    def data_folder(self) -> Path:
        """Where workers and spools keep their files."""
        ...

    @property
    def ring_bytes(self) -> int:
        """Shared memory between a worker and the agent."""
        ...

    @property
    def spool_max_bytes(self) -> int:
        """Disk behind it, before batches are dropped and counted."""
        ...

    @property
    def heartbeat_s(self) -> float:
        """Seconds between renewals of the lease."""
        ...

    @property
    def run_silence_s(self) -> float:
        """Seconds without a sign of life that end a run."""
        ...


async def serve(bus: Bus, settings: AgentSettings, stop: asyncio.Event) -> None:
    """Be an agent until `stop` is set; what runs then is left to the scheduler to repeat.

    Raises NameTaken when another agent of this name lives.
    """
    claim = Claim(
        settings.agent_id,
        settings.data_folder / "agents",
        may_number=settings.may_number_agent,
        pause_s=settings.heartbeat_s / 4,
    )
    tenure = await claim.carry_out(bus, stop)
    if tenure is None:
        return
    agent = Agent(bus, settings, tenure)
    loops = (agent.keep_lease(), agent.do_orders(), _until(stop))
    await agent.open()
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        agent.change(Stopping())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await agent.leave()


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


class Agent:
    """One start of an agent."""

    def __init__(self, bus: Bus, settings: AgentSettings, tenure: Tenure) -> None:
        self.id, self.incarnation = tenure.agent, tenure.incarnation
        self._bus, self._settings, self._tenure = bus, settings, tenure
        self._parent = settings.data_folder / "agents" / self.id
        folder = self._parent / self.incarnation
        limits = WorkerLimits(folder, settings.ring_bytes, settings.spool_max_bytes)
        self._sessions = Sessions(limits)
        self._sink = BusSink(bus)
        self._folder: OwnFolder | None = None
        self._times_announced = 0
        self._orders = Orders()
        self._waiting: asyncio.Queue[WorkOrder] = asyncio.Queue()
        self._execution: Execution | None = None
        #: stops of runs that have not begun: evaluation, run, attempt to reason
        self._stops: dict[tuple[str, str, int], str] = {}
        self._changed = asyncio.Event()

    def change(self, event: Event) -> None:
        """Take an event into account; the lease tells it at once."""
        self._orders = evolve(self._orders, event)
        self._changed.set()

    async def open(self) -> None:
        """Clear what former starts left, announce this one and begin to answer."""
        self._folder = await asyncio.to_thread(own_folder, self._parent, self.incarnation)
        await asyncio.to_thread(clear_dead, self._parent)
        await self._announce()
        verbs: Mapping[str, Callable[[Words, bytes], Awaitable[bytes]]] = {
            "start": self._start,
            "stop": self._stop,
            "close": self._close,
            "query": self._query,
            "finish": self._finish,
        }
        subjects = {verb: agent_command(self.id, verb) for verb in verbs}
        for verb, subject in subjects.items():
            answerer = _answering(verbs[verb])
            if verb == "query":
                # They wait in the worker, where waiting is measured; it bounds them, not the bus.
                most = 2 * MOST_WAITING
                await self._bus.answer(
                    subject, answerer, queue=None, limit_pending=most, limit_running=most
                )
            else:
                await self._bus.answer(subject, answerer, queue=None)
        version = package_version("mlscope") or "0.0.0"
        facts = ServiceFacts("agent", version, "Runs models and measures them.", subjects)
        await self._bus.announce(facts, self._told)

    async def _announce(self) -> None:
        """Say what this agent is, at its start and once it holds its lost lease again."""
        settings = self._settings
        said = await asyncio.to_thread(
            announcement,
            self.id,
            self.incarnation,
            image=settings.agent_image,
            labels=settings.agent_labels,
            predictors=settings.agent_predictors,
            allows_inline_python=settings.allow_inline_python,
        )
        fact = AgentAnnounced(agent=self.id, announcement=said)
        fact_id = derived_id(self.incarnation, "announced", self._times_announced)
        self._times_announced += 1
        await self._sink.put(fact, id=fact_id, cause="")

    async def leave(self) -> None:
        """End the workers, say goodbye and let the lease go."""
        await self._sessions.close_all()
        await self._sink.close()
        with contextlib.suppress(BusError):
            fact = AgentLeft(agent=self.id, incarnation=self.incarnation)
            await self._bus.publish(fact, id=derived_id(self.incarnation, "left"))
            await self._tenure.release()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.release)

    async def keep_lease(self) -> None:
        """Renew the lease with every heartbeat and with every change, for ever.

        Who lost it meanwhile was taken as gone: once it is held again, that is said anew.
        """
        while True:
            try:
                if await self._tenure.renew(self._orders.busy):
                    await self._announce()
            except BusError as error:
                _log.warning("the lease was not renewed", extra={"cause": str(error)})
            self._changed.clear()
            # Not `wait_for`: before Python 3.12 it may swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_s):
                    await self._changed.wait()

    async def do_orders(self) -> None:
        """Do one order after the other, for ever; whatever happens to one, the next is done."""
        while True:
            try:
                async with asyncio.timeout(self._settings.heartbeat_s):
                    order = await self._waiting.get()
            except TimeoutError:
                await self._sessions.close_idle()
                continue
            try:
                await self._do(order)
            except Exception:  # noqa: BLE001  # one order must not end the agent
                _log.exception("an order broke", extra={"evaluation": order.evaluation})
                await self._bury(order)
            self.change(Ended(order))

    async def _do(self, order: WorkOrder) -> None:
        key = self._sessions.working = session_key(order)
        try:
            worker = await self._sessions.worker(key)
            if not worker.has_goods:
                worker.take(await self._brought(order))
        except (AgentError, OSError) as error:
            await self._bury(order, error if isinstance(error, AgentError) else None)
            return
        settings = self._settings
        self._execution = Execution(
            Telling(order, self._sink), worker, settings.manifests_folder, settings.run_silence_s
        )
        for run in order.runs:
            reason = self._stops.pop((order.evaluation, run, order.attempt), None)
            if reason is not None:
                await self._execution.stop(run, reason)
        try:
            is_useful = await self._execution.carry_out()
        except asyncio.CancelledError:
            worker.kill()
            raise
        finally:
            await self._sessions.rest()
        if not is_useful:
            await self._sessions.close(key)

    async def _brought(self, order: WorkOrder) -> Goods:
        """Bring an order's assets, unless all of its runs are stopped. Raises AgentError."""
        inbox = agent_inbox(self.id)
        bringing = asyncio.ensure_future(
            bring_for(order.subject, self._settings, name="agent", inbox=inbox)
        )
        try:
            while not bringing.done():
                await asyncio.wait({bringing}, timeout=_LOOK_S)
                names = [(order.evaluation, run, order.attempt) for run in order.runs]
                if not bringing.done() and all(name in self._stops for name in names):
                    reason = [self._stops.pop(name) for name in names]
                    raise Stopped(reason[0])
            return bringing.result()
        finally:
            bringing.cancel()

    async def _bury(self, order: WorkOrder, error: AgentError | None = None) -> None:
        """Say that an order's runs failed, those of them that have not ended."""
        execution, self._execution = self._execution, None
        await self._sessions.close(session_key(order))
        telling = Telling(order, self._sink)
        if execution is not None and execution.order is order:
            telling = execution.telling
        await telling.bury(error or WorkerDied("could not be used; see the agent's log"))

    def _told(self) -> Mapping[str, object]:
        return {
            "agent": self.id,
            "incarnation": self.incarnation,
            "holds_lease": self._tenure.is_held,
            "busy": list(self._orders.busy),
            "workers": len(self._sessions),
            "pending_batches": self._sink.pending,
        }

    async def _start(self, _: Words, body: bytes) -> bytes:
        order = decode_body(WorkOrder, body)
        answer, events = decide_start(
            self._orders, order, self.id, self.incarnation, MOST_OPEN_ORDERS
        )
        for event in events:
            self.change(event)
            self._waiting.put_nowait(order)
            await self._stop_older(order)
        return encode_body(answer, json_text=is_json(body))

    async def _stop_older(self, order: WorkOrder) -> None:
        """End attempts under way that a new order repeats: nobody waits for them any more."""
        execution = self._execution
        if execution is None or execution.order.evaluation != order.evaluation:
            return
        for run in execution.telling.left:
            if run in order.runs and execution.order.attempt < order.attempt:
                await execution.stop(run, f"attempt {order.attempt} was ordered")

    async def _stop(self, words: Words, body: bytes) -> bytes:
        name = _run_name(words)
        reason = str(words.get("reason", ""))
        execution = self._running(name)
        if execution is not None:
            await execution.stop(name[1], reason)
        elif f"{name[0]}/{name[1]}/{name[2]}" in self._orders.busy:
            self._stops[name] = reason
        else:
            return _told_off(body, "unknown", "no such run is waiting or under way")
        return encode_body(WorkAnswer(accepted=True), json_text=is_json(body))

    async def _close(self, words: Words, body: bytes) -> bytes:
        key = (str(words["evaluation"]), str(words["session"]))
        message = await self._sessions.close_when_idle(key)
        return encode_body(WorkAnswer(accepted=True, message=message), json_text=is_json(body))

    async def _query(self, words: Words, _: bytes) -> bytes:
        name = _run_name(words)
        execution = self._running(name)
        answer: Words = {"query": words.get("query"), "status": 1, "service_ns": 0}
        if execution is None:
            answer["error"] = "stale: this attempt is not under way here"
        else:
            answer = await execution.query(name[1], words, _ANSWER_S)
        packed: bytes = msgpack.packb(
            {field: answer[field] for field in ("query", "status", "service_ns", "error")}
        )
        return packed

    async def _finish(self, words: Words, body: bytes) -> bytes:
        name = _run_name(words)
        execution = self._running(name)
        if execution is None:
            return _told_off(body, "stale", "this attempt is not under way here")
        await execution.finish(name[1], Issued.of(words))
        return encode_body(WorkAnswer(accepted=True), json_text=is_json(body))

    def _running(self, name: tuple[str, str, int]) -> Execution | None:
        """Return the execution that has this very attempt under way."""
        execution = self._execution
        if execution is None or name[1] not in execution.telling.left:
            return None
        order = execution.order
        return execution if (order.evaluation, order.attempt) == (name[0], name[2]) else None


def _answering(
    verb: Callable[[Words, bytes], Awaitable[bytes]],
) -> Callable[[Asked], Awaitable[bytes]]:
    """Return an answerer that reads the body first and says what is wrong with it."""

    async def answer(asked: Asked) -> bytes:
        try:
            return await verb(unpack(asked.body), asked.body)
        except (SchemaError, KeyError, ValueError, TypeError) as error:
            return _told_off(asked.body, "malformed", f"{type(error).__name__}: {error}")

    return answer


def _run_name(words: Words) -> tuple[str, str, int]:
    return str(words["evaluation"]), str(words["run"]), int(words["attempt"])


def _told_off(body: bytes, error: str, message: str) -> bytes:
    answer = WorkAnswer(accepted=False, error=error, message=message)
    return encode_body(answer, json_text=is_json(body))
