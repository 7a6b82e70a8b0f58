"""The loop around it all: announces the agent, holds its lease, takes orders, says what came."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from mlscope.bus.bus import Bus, ServiceFacts
from mlscope.bus.errors import BusError
from mlscope.bus.permissions import agent_inbox
from schemas.agent import AgentAnnounced, AgentLeft
from schemas.message import derived_id
from schemas.plan import WorkOrder
from services.agent.allowances import Allowances
from services.agent.bringing import Goods, bring_for
from services.agent.commands import Commands
from services.agent.desk import Desk
from services.agent.errors import AgentError, Stopped, WorkerDied
from services.agent.execution import Execution
from services.agent.folders import OwnFolder, clear_dead, own_folder
from services.agent.leasing import Claim, Tenure
from services.agent.machine import announcement, package_version
from services.agent.outbox import BusSink
from services.agent.process import WorkerLimits
from services.agent.roofs import FOLDER, Roofs
from services.agent.sessions import Sessions, session_key
from services.agent.settings import AgentSettings
from services.agent.state import Ended, Stopping
from services.agent.telling import Telling
from services.agent.variants import environment_of

_LOOK_S = 0.2
_log = logging.getLogger(__name__)


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
        agent.desk.change(Stopping())
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
        self._sessions = Sessions(
            WorkerLimits(
                folder,
                settings.ring_bytes,
                settings.spool_max_bytes,
                settings.worker_memory_bytes,
            )
        )
        self._sink = BusSink(bus)
        self._allowed = Allowances.of(settings)
        self._roofs = Roofs(settings.data_folder / FOLDER)
        self._folder: OwnFolder | None = None
        self._times_announced = 0
        self.desk = Desk(self.id, self.incarnation)

    async def open(self) -> None:
        """Clear what former starts left, announce this one and begin to answer."""
        self._folder = await asyncio.to_thread(own_folder, self._parent, self.incarnation)
        await asyncio.to_thread(clear_dead, self._parent)
        await self._announce()
        subjects = await Commands(self.desk, self._sessions).open(self._bus, self.id)
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
            allowed=self._allowed,
        )
        said = await asyncio.to_thread(self._roofs.announced, said)
        fact = AgentAnnounced(agent=self.id, announcement=said)
        fact_id = derived_id(self.incarnation, "announced", self._times_announced)
        self._times_announced += 1
        await self._sink.put(fact, id=fact_id, cause="")

    async def _tell_roofs(self) -> None:
        """Announce this agent anew where a roof was measured; its order goes on without."""
        if self._roofs.has_news:
            with contextlib.suppress(BusError):
                await self._announce()

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
            self.desk.changed.clear()
            try:
                if await self._tenure.renew(self.desk.busy, self.desk.brought_s):
                    await self._announce()
            except BusError as error:
                _log.warning("the lease was not renewed", extra={"cause": str(error)})
            # Not `wait_for`: before Python 3.12 it may swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_s):
                    await self.desk.changed.wait()

    async def do_orders(self) -> None:
        """Do one order after the other, for ever; whatever happens to one, the next is done."""
        while True:
            try:
                async with asyncio.timeout(self._settings.heartbeat_s):
                    order = await self.desk.next()
            except TimeoutError:
                await self._sessions.close_idle()
                continue
            try:
                await self._do(order)
            except Exception:  # noqa: BLE001  # one order must not end the agent
                _log.exception("an order broke", extra={"evaluation": order.evaluation})
                await self._bury(order, WorkerDied("could not be used; see the agent's log"))
            await self._sessions.rest()
            self.desk.change(Ended(order))

    async def _do(self, order: WorkOrder) -> None:
        key = self._sessions.working = session_key(order)
        try:
            environment = environment_of(order.session.variant)
            roof = await self._roofs.of(order)
            await self._tell_roofs()
            worker = await self._sessions.worker(key, environment)
            if not worker.has_goods:
                with self.desk.bringing(order):
                    worker.take(await self._brought(order))
        except AgentError as error:
            await self._bury(order, error)
            return
        except OSError as error:
            await self._bury(order, WorkerDied(f"could not be started: {error}"))
            return
        settings = self._settings
        execution = self.desk.execution = Execution(
            Telling(order, self._sink),
            worker,
            settings.manifests_folder,
            settings.run_silence_s,
            self._allowed,
            roof,
        )
        for run, reason in self.desk.stops_of(order).items():
            await execution.stop(run, reason)
        try:
            is_useful = await execution.carry_out()
        except asyncio.CancelledError:
            worker.kill()
            raise
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
                stops = self.desk.stops_of(order)
                if not bringing.done() and all(run in stops for run in order.runs):
                    raise Stopped(stops[order.runs[0]])
            return bringing.result()
        finally:
            bringing.cancel()

    async def _bury(self, order: WorkOrder, error: AgentError) -> None:
        """Say that an order's runs failed, those of them that have not ended.

        Where even that can't be said the scheduler ends them, past their time.
        """
        execution, self.desk.execution = self.desk.execution, None
        await self._sessions.close(session_key(order))
        telling = Telling(order, self._sink)
        if execution is not None and execution.order is order:
            telling = execution.telling
        try:
            await telling.bury(error)
        except BusError:
            _log.exception("an order's end is not said", extra={"evaluation": order.evaluation})

    def _told(self) -> Mapping[str, object]:
        return {
            "agent": self.id,
            "incarnation": self.incarnation,
            "holds_lease": self._tenure.is_held,
            "busy": list(self.desk.busy),
            "workers": len(self._sessions),
            "pending_batches": self._sink.pending,
        }
