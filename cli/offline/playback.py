"""An agent that plays a bundle back: it accepts orders and answers them with recorded facts."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cli.offline.bundle import Bundle
from cli.offline.planning import PRESUMED_COLLECTORS, PRESUMED_DEPTH
from cli.offline.recorded_runs import RecordedRuns
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from mlscope.exchange.errors import BundleBroken
from mlscope.tasks import end_tasks
from schemas.agent import AgentAnnounced, AgentLeft, Announcement, CollectorFacts
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.encoding.errors import SchemaError
from schemas.level import Level
from schemas.message import derived_id
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import RunCompleted, RunFailed
from schemas.subjects import agent_command
from services.agent.host.leasing import HeldLease
from services.agent.host.publishing.outbox import BusSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher

_COUNTERS = CollectorFacts(name="recorded", levels=(Level.HARDWARE,))


class Playback:
    """The agent of a bundle's machine, for as long as the context of `present` is open."""

    def __init__(self, bus: Bus, bundle: Bundle, heartbeat_s: float, *, key: str = "") -> None:
        """Prepare an agent.

        `bus`: the agent's connection; `bundle`: the facts to answer with; `heartbeat_s`: seconds
        between renewals of its lease; `key`: the key of the only request that it serves.
        """
        self._key = key
        self._bus, self._bundle, self._heartbeat_s = bus, bundle, heartbeat_s
        self._incarnation = secrets.token_hex(8)
        self._lease = HeldLease(bus, bundle.agent, self._incarnation)
        self._evaluation: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._orders: asyncio.Queue[WorkOrder] = asyncio.Queue()
        self._accepted: set[tuple[str, int]] = set()
        self._recorded = RecordedRuns(bundle)
        #: set to the reason when an order needs facts that the bundle does not hold (any more)
        self.gap: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def expect(self, evaluation: str) -> None:
        """Accept orders of this evaluation and of no other."""
        self._evaluation.set_result(evaluation)

    @asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """Be an agent in the catalog while inside. Raises NameTaken when one of its name lives."""

        async def accept(command: ReceivedCommand) -> bytes:
            return encode_body(WorkAnswer(accepted=True), json_text=is_json(command.body))

        agent = self._bundle.agent
        # Without knowledge about the holder of its name, it waits until that lease ends.
        await self._lease.claim(lambda _: False, self._heartbeat_s / 4)
        for verb in ("start", "stop", "close"):
            handler = self._handle_start if verb == "start" else accept
            await self._bus.answer(agent_command(agent, verb), handler, queue=None)
        announced = AgentAnnounced(agent=agent, announcement=self._announcement())
        await self._bus.publish(announced, id=derived_id(self._incarnation, "announced"))
        tasks = [asyncio.create_task(self._keep_lease()), asyncio.create_task(self._play())]
        try:
            yield
        finally:
            await end_tasks(tasks)
            with contextlib.suppress(BusError):
                farewell = AgentLeft(agent=agent, incarnation=self._incarnation)
                await self._bus.publish(farewell, id=derived_id(self._incarnation, "left"))
                await self._lease.release()

    def _announcement(self) -> Announcement:
        """Return the recorded machine, with the depth that its plan presumed: it plans alike.

        If the bundle has runs with hardware counters, it announces counters for every device.
        """
        runtimes = tuple(
            runtime.model_copy(update={"deepest_level": PRESUMED_DEPTH})
            for runtime in self._bundle.announcement.runtimes
        )
        variants = {session.variant for session in self._bundle.plan.sessions}
        counters = (_COUNTERS,) if "counters" in variants else ()
        return self._bundle.announcement.model_copy(
            update={
                "incarnation": self._incarnation,
                "runtimes": runtimes,
                "collectors": (*PRESUMED_COLLECTORS, *counters),
                "reserved_for": self._key,
            }
        )

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            with contextlib.suppress(BusError):
                await self._lease.renew(())

    async def _handle_start(self, command: ReceivedCommand) -> bytes:
        try:
            order = decode_body(WorkOrder, command.body)
        except SchemaError as error:
            answer = WorkAnswer(accepted=False, error="malformed", message=str(error))
        else:
            answer = await self._accept_order(order)
        return encode_body(answer, json_text=is_json(command.body))

    async def _accept_order(self, order: WorkOrder) -> WorkAnswer:
        async with asyncio.timeout(self._heartbeat_s):
            evaluation = await asyncio.shield(self._evaluation)
        if order.evaluation != evaluation:
            message = "this agent plays back another evaluation"
            return WorkAnswer(accepted=False, error="busy", message=message)
        recorded = self._recorded.names_of(order.session)
        missing = [run for run in order.runs if not self._bundle.holds(recorded[run])]
        if missing:
            self._report_gap(f"the bundle holds no {missing[0]}: planned by another version")
            message = f"the bundle holds no {missing[0]}"
            return WorkAnswer(accepted=False, error="unknown", message=message)
        order_key = (",".join(order.runs), order.attempt)
        if order_key not in self._accepted:
            self._accepted.add(order_key)
            self._orders.put_nowait(order)
        return WorkAnswer(accepted=True)

    def _report_gap(self, reason: str) -> None:
        if not self.gap.done():
            self.gap.set_result(reason)

    async def _play(self) -> None:
        """Publish the recorded facts of each accepted order, as facts of that order."""
        sink = BusSink(self._bus)
        try:
            while True:
                order = await self._orders.get()
                publisher = OutcomePublisher(order, sink)
                recorded = self._recorded.names_of(order.session)
                for run in order.runs:
                    facts = self._bundle.facts(recorded[run])
                    while fact := await asyncio.to_thread(next, facts, None):
                        # As a fact of this order's evaluation and attempt.
                        place: dict[str, str | int] = {"evaluation": order.evaluation, "run": run}
                        place |= {"attempt": order.attempt, "agent": order.agent}
                        replayed = fact.model_copy(update=place)
                        if isinstance(replayed, RunCompleted | RunFailed):
                            await publisher.publish_outcome(replayed)
                        else:
                            await publisher.publish_batch(replayed)  # type: ignore[arg-type]
        except (BundleBroken, BusError) as error:
            self._report_gap(str(error))
