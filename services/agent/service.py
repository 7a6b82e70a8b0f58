"""The agent's service: announces it, holds its lease, takes orders and publishes their outcomes."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from mlscope.assets.options import AllowedHosts
from mlscope.bus.access.permissions import agent_inbox
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import ServiceInfo
from mlscope.manifests.digests import digest_of, model_digests
from mlscope.manifests.folders import read_manifests
from mlscope.manifests.verifying import UNVERIFIED, refused_in
from mlscope.serving import run_until_stopped
from mlscope.settings import InvalidSetting
from schemas.agent import AgentAnnounced, AgentLeft
from schemas.manifest import ModelManifest
from schemas.message import derived_id
from schemas.plan import Subject, WorkOrder
from services.agent.errors import (
    AgentError,
    ModelNotAllowed,
    Stopped,
    WorkerDied,
)
from services.agent.fetching.fetching import ArtifactAccess, FetchedAssets, fetch_for_subject
from services.agent.fetching.host_watch import HostWatch
from services.agent.host.announcing import announcement, limited_to
from services.agent.host.clock_reading import read_cluster_clock
from services.agent.host.commands import Commands
from services.agent.host.containers.keeping import Containers
from services.agent.host.execution import Execution
from services.agent.host.folders import OwnFolder, clear_dead, own_folder
from services.agent.host.leasing import HeldLease, LeaseClaim
from services.agent.host.order_queue import OrderQueue
from services.agent.host.process import WorkerLimits, WorkerProcess
from services.agent.host.publishing.outbox import BusSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.resource_feed import meter_of, publishing_resources
from services.agent.host.roofs.keeping import DeviceRoofs
from services.agent.host.roofs.stored import FOLDER
from services.agent.host.sessions import Sessions, session_key
from services.agent.host.state import Ended, Stopping
from services.agent.link.allowances import Allowances
from services.agent.link.bounds import Bounds
from services.agent.link.variants import variant_environment
from services.agent.machine.hardware import package_version
from services.agent.machine.roofline.ceilings import Roof
from services.agent.settings import AgentSettings
from services.agent.worker.sandbox.sandbox import missing_parts

_FETCH_POLL_S, _CONTAINERS_POLL_S = 0.2, 30.0
_LEAVE_WITHIN_S = 5.0
_IDLE_POLL_S = 0.5
_log = logging.getLogger(__name__)


async def serve(bus: Bus, settings: AgentSettings, stop: asyncio.Event) -> None:
    """Run an agent with its `settings` on a `bus`, until `stop` is set.

    Runs under way then are left to the scheduler to repeat. Raises NameTaken when another agent of
    this name is alive, and InvalidSetting when a required sandbox cannot be had here.
    """
    if settings.sandbox == "required" and (missing := missing_parts()):
        expected = f"auto, which lets models do more, or off: {'; '.join(missing)}"
        raise InvalidSetting("MLSCOPE_SANDBOX", settings.sandbox, expected)
    claim = LeaseClaim(
        settings.agent_id,
        settings.data_folder / "agents",
        may_number=settings.may_number_agent,
        pause_s=settings.heartbeat_s / 4,
    )
    lease = await claim.acquire(bus, stop)
    if lease is None:
        return
    agent = Agent(bus, settings, lease)
    await agent.open()
    try:
        await run_until_stopped(
            stop,
            agent.keep_lease(),
            agent.do_orders(),
            agent.watch_idle_workers(),
            agent.watch_containers(),
            agent.watch_hosts(),
            before_cancel=lambda: agent.orders.apply(Stopping()),
        )
    finally:
        await agent.leave()


class Agent:
    """One start of an agent."""

    def __init__(self, bus: Bus, settings: AgentSettings, lease: HeldLease) -> None:
        """Answer over `bus`, by these `settings`, under the name whose `lease` is held."""
        self.id, self.incarnation = lease.agent, lease.incarnation
        self._bus, self._settings, self._lease = bus, settings, lease
        self._parent = settings.data_folder / "agents" / self.id
        folder = self._parent / self.incarnation
        self._sessions = Sessions(
            WorkerLimits(
                folder,
                settings.ring_bytes,
                settings.spool_max_bytes,
                Bounds.of(settings),
                settings.live_interval_s,
                settings.worker_variables,
            )
        )
        self._sink = BusSink(bus)
        self._allowances = Allowances.of(settings)
        self._roofs = DeviceRoofs(settings.data_folder / FOLDER)
        self._containers = Containers(settings, self._parent.absolute(), self._allowances)
        self._folder: OwnFolder | None = None
        self._models: frozenset[str] | None = None
        allowed = AllowedHosts(settings.fetch_hosts)
        self._hosts = HostWatch(settings.hub_url, allowed, settings.assets_folder)
        self._sandbox_missing = () if settings.sandbox == "off" else missing_parts()
        self._announcing = asyncio.Lock()
        self._times_announced = 0
        self.orders = OrderQueue(self.id, self.incarnation)

    async def open(self) -> None:
        """Clear the folders of former starts, announce this one and begin to answer commands."""
        self._hosts.begin()
        self._folder = await asyncio.to_thread(own_folder, self._parent, self.incarnation)
        await asyncio.to_thread(clear_dead, self._parent)
        if not self._settings.opens_any_model:
            own = await asyncio.to_thread(list, read_manifests(self._settings.manifests_folder))
            models = (manifest for manifest in own if isinstance(manifest, ModelManifest))
            self._models = model_digests(models)
        await self._hosts.settle()
        await self._announce()
        subjects = await Commands(self.orders, self._sessions).open(self._bus, self.id)
        version = package_version("mlscope") or "0.0.0"
        info = ServiceInfo("agent", version, "Runs models and measures them.", subjects)
        await self._bus.announce(
            info,
            lambda: {
                "agent": self.id,
                "incarnation": self.incarnation,
                "holds_lease": self._lease.is_held,
                "busy": list(self.orders.busy),
                "workers": len(self._sessions),
                "pending_batches": self._sink.pending,
                "spool_bytes": self._sessions.waiting_bytes,
                "rows_published": dict(self._sink.rows_published),
                "dropped_batches": self._sink.dropped_batches,
                "runs_ended": dict(self._sink.runs_ended),
            },
        )

    async def _announce(self) -> None:
        """Announce this agent: at its start, and anew when roofs, lease or hosts change."""
        settings = self._settings
        async with self._announcing:
            described = await asyncio.to_thread(
                announcement,
                self.id,
                self.incarnation,
                image=settings.agent_image,
                labels=settings.agent_labels,
                predictors=settings.agent_predictors,
                allowances=self._allowances,
            )
            described = limited_to(described, self._models)
            described = await asyncio.to_thread(self._roofs.added_to, described)
            described = self._containers.added_to(described)
            faults = dict(self._hosts.faults)
            described = await asyncio.to_thread(self._hosts.added_to, described, faults)
            changes = {"sandbox": settings.sandbox, "sandbox_missing": self._sandbox_missing}
            described = described.model_copy(update=changes)
            fact = AgentAnnounced(agent=self.id, announcement=described)
            fact_id = derived_id(self.incarnation, "announced", self._times_announced)
            self._times_announced += 1
            await self._sink.put(fact, id=fact_id, cause="")
            self._hosts.announced = frozenset(faults)

    async def leave(self) -> None:
        """End the workers, publish that the agent left, and release its lease and folder."""
        await self._sessions.close_all()
        await self._sink.close()
        try:
            # A bus repeats both for a minute; an agent that is ended must not wait so long for it.
            async with asyncio.timeout(_LEAVE_WITHIN_S):
                fact = AgentLeft(agent=self.id, incarnation=self.incarnation)
                await self._bus.publish(fact, id=derived_id(self.incarnation, "left"))
                await self._lease.release()
        except (BusError, TimeoutError) as error:
            # Its lease ends by itself.
            _log.warning("ended without notice", extra={"cause": str(error) or "no answer"})
        if self._folder is not None:
            await asyncio.to_thread(self._folder.release)

    async def keep_lease(self) -> None:
        """Renew the lease with every heartbeat and every change of the orders, for ever.

        While the lease was lost the agent counted as gone: it is announced anew afterwards.
        """
        while True:
            self.orders.changed.clear()
            try:
                if await self._lease.renew(self.orders.busy, self.orders.fetch_elapsed_s):
                    await self._announce()
            except BusError as error:
                _log.warning("the lease was not renewed", extra={"cause": str(error)})
            # Not `wait_for`: before Python 3.12 it may swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_s):
                    await self.orders.changed.wait()

    async def watch_containers(self) -> None:
        """Announce what the engine and its images have, and every change of it, for ever.

        It looks only while no order is under way, which it would disturb; an order ends a look.
        """
        while self._containers.are_allowed:
            if not self.orders.busy and await self._containers.refresh():
                try:
                    await self._announce()
                except BusError as error:
                    _log.warning("containers are not announced", extra={"cause": str(error)})
            await asyncio.sleep(_CONTAINERS_POLL_S)
        await asyncio.Event().wait()

    async def watch_hosts(self) -> None:
        """Announce anew whenever the hub or another host of weights is found or lost, for ever.

        It waits for the end of the order under way, which the search for packages and devices would
        disturb; the next order waits for it.
        """
        async for _ in self._hosts.changes():
            # Where this fails, the next try announces it.
            with contextlib.suppress(BusError):
                async with self._containers.undisturbed():
                    await self._announce()

    async def watch_idle_workers(self) -> None:
        """Kill workers that use more than they may while they have no order, for ever."""
        while True:
            await asyncio.sleep(_IDLE_POLL_S)
            await self._sessions.kill_excessive()

    async def do_orders(self) -> None:
        """Do one order after the other, for ever; an order that fails ends no other."""
        while True:
            try:
                async with asyncio.timeout(self._settings.heartbeat_s):
                    order = await self.orders.next()
            except TimeoutError:
                await self._sessions.close_idle()
                continue
            async with self._containers.undisturbed():
                try:
                    await self._do_order(order)
                except Exception:  # noqa: BLE001  # one order must not end the agent
                    _log.exception("an order broke", extra=_place_of(order))
                    failure = WorkerDied("could not be used; see the agent's log")
                    await self._fail_order(order, failure)
            await self._sessions.end_order()
            self.orders.apply(Ended(order))

    async def _do_order(self, order: WorkOrder) -> None:
        key = self._sessions.working = session_key(order)
        try:
            worker, roof = await self._prepare(order)
        except AgentError as error:
            await self._fail_order(order, error)
            return
        except OSError as error:
            await self._fail_order(order, WorkerDied(f"could not be started: {error}"))
            return
        settings = self._settings
        publisher = OutcomePublisher(order, self._sink)
        publisher.note_clock(await read_cluster_clock(self._bus))
        execution = self.orders.execution = Execution(
            publisher,
            worker,
            settings.manifests_folder,
            settings.run_silence_s,
            self._allowances,
            roof,
        )
        for run, reason in self.orders.early_stops(order).items():
            await execution.stop(run, reason)
        meter = await asyncio.to_thread(meter_of, order, worker.pid)
        try:
            async with publishing_resources(self._bus, execution, meter):
                is_usable = await execution.carry_out()
        except asyncio.CancelledError:
            worker.kill()
            raise
        if not is_usable:
            await self._sessions.close(key)

    async def _prepare(self, order: WorkOrder) -> tuple[WorkerProcess, Roof]:
        """Return an order's worker, with its files fetched, and its device's roof.

        Raises AgentError, OSError.
        """
        if self._models is not None and not is_own(order.subject, self._models):
            raise ModelNotAllowed(order.subject.model.name)
        roof = await self._roofs.roof_for_order(order)
        if self._roofs.has_news:
            # The order goes on where this fails: a later announcement has the roof as well.
            with contextlib.suppress(BusError):
                await self._announce()
        environment = variant_environment(order.session.variant)
        key = session_key(order)
        if order.subject.container and not self._sessions.has_living(key):
            return await self._start_in_container(order, environment), roof
        worker = await self._sessions.worker(key, environment)
        if not worker.has_assets:
            with self.orders.fetching(order):
                worker.keep_assets(await self._fetch(order))
        return worker, roof

    async def _start_in_container(
        self, order: WorkOrder, environment: Mapping[str, str]
    ) -> WorkerProcess:
        """Return a new worker in a container, which sees the files fetched for it and no others.

        Raises AgentError, OSError.
        """
        with contextlib.ExitStack() as undo:
            with self.orders.fetching(order):
                assets = await self._fetch(order)
            undo.callback(assets.close)
            files = [file.path for file in assets.files.values() if not file.failure]
            container = self._containers.of_session(order.subject, files)
            worker = await self._sessions.worker(session_key(order), environment, container)
            worker.keep_assets(assets)
            undo.pop_all()
            return worker

    async def _fetch(self, order: WorkOrder) -> FetchedAssets:
        """Fetch an order's files; give up when all its runs are stopped. Raises AgentError."""
        artifacts = ArtifactAccess(self._settings, "agent", agent_inbox(self.id))
        fetching = asyncio.create_task(
            fetch_for_subject(order.subject, self._settings, artifacts=artifacts)
        )
        try:
            while not fetching.done():
                await asyncio.wait({fetching}, timeout=_FETCH_POLL_S)
                stops = self.orders.early_stops(order)
                if not fetching.done() and all(run in stops for run in order.runs):
                    raise Stopped(stops[order.runs[0]])
            return fetching.result()
        finally:
            fetching.cancel()

    async def _fail_order(self, order: WorkOrder, error: AgentError) -> None:
        """Publish that those of an order's runs failed that have not ended.

        Where even that fails, the scheduler ends the runs past their time.
        """
        execution, self.orders.execution = self.orders.execution, None
        await self._sessions.close(session_key(order))
        publisher = OutcomePublisher(order, self._sink)
        if execution is not None and execution.order is order:
            publisher = execution.publisher
        try:
            await publisher.fail_open_runs(error)
        except BusError:
            _log.exception("an order's outcome is not published", extra=_place_of(order))


def is_own(subject: Subject, models: frozenset[str]) -> bool:
    """Tell whether a subject's model is one of `models` (digests), and all its files verified."""
    options = {name: text for name, text in subject.options.items() if text != UNVERIFIED}
    is_verified = refused_in(subject.model.model, options) is None
    return is_verified and digest_of(subject.model) in models


def _place_of(order: WorkOrder) -> dict[str, object]:
    """Return what a line of the log says of an order beside its event."""
    runs = ",".join(order.runs)
    return {"evaluation": order.evaluation, "run": runs, "agent": order.agent}
