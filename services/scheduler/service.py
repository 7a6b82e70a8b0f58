"""The scheduler as a service: it decides on each fact and once a second, and carries out effects.

Several instances may run. Each folds the whole log; guarded writes settle which one decides.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from importlib.metadata import version
from weakref import WeakValueDictionary

from mlscope.bus.asked import answer_all, endpoints_of
from mlscope.bus.bus import Bus, Delivery
from mlscope.bus.errors import BusError
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.records import ServiceInfo
from mlscope.bus.unfolded import bury_unfolded
from mlscope.serving import run_until_stopped
from mlscope.settings import Settings
from schemas.message import Fact
from schemas.request import Cancel, Evaluate, ListEvaluations, Match, ShowEvaluation
from schemas.subjects import ROOT
from services.scheduler.agent_commands import AgentCommands
from services.scheduler.decision_log import DecisionLog
from services.scheduler.errors import Undecided
from services.scheduler.evaluation.attempts import decide_broken
from services.scheduler.evaluation.decide import decide, is_slow
from services.scheduler.evaluation.effects import Start, effects
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.quotas import Quotas
from services.scheduler.evaluation.starting import replacement_agents
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.fleet_watch import FleetWatch
from services.scheduler.patience import Patience, in_wall_time
from services.scheduler.placement.fleet import Attempt, Limits
from services.scheduler.remote_load.processes import BrokerAddress
from services.scheduler.remote_load.remote_loads import RemoteLoads
from services.scheduler.request_answers import RequestAnswers

_log = logging.getLogger(__name__)
_EVERYTHING = f"{ROOT}.*.>"
POLL_S = 1.0
_POLLED = 200
_AT_ONCE = 16
_MAX_CLOSED = 10_000


async def serve(
    bus: Bus, settings: Settings, stop: asyncio.Event, limits: Limits | None = None
) -> None:
    """Schedule over `bus` until `stop` is set; without `limits` as the `settings` say."""
    scheduler = Scheduler(bus, settings, limits or limits_of(settings))
    try:
        await run_until_stopped(
            stop,
            scheduler.fleet_watch.watch_catalog(),
            scheduler.fleet_watch.watch_leases(),
            scheduler.fleet_watch.hold_lease(),
            scheduler.work(),
            scheduler.poll(),
            scheduler.advance_after_catalog_changes(),
            scheduler.advance_woken(),
        )
    finally:
        await scheduler.close()


def limits_of(settings: Settings) -> Limits:
    """Return the limits of settings; waits for the collector follow from its own deadline."""
    return Limits(
        attempts_lost=settings.run_attempts,
        agent_grace_s=settings.agent_grace_s,
        lease_ttl_s=settings.lease_ttl_s,
        stored_wait_s=3 * settings.batch_deadline_s,
        recording_wait_s=max(900.0, 15 * settings.batch_deadline_s),
        analysis_wait_s=settings.analysis_wait_s,
    )


class Scheduler:
    """One instance: its index of evaluations, its view of the fleet, its commands and loads."""

    def __init__(self, bus: Bus, settings: Settings, limits: Limits) -> None:
        """Begin without any evaluation; the loops of `serve` read the log over `bus`.

        `settings` say where pages and broker are, `limits` bound attempts and waits.
        """
        self.instance = f"s{secrets.token_hex(6)}"
        self.index = EvaluationIndex(
            pages=f"{settings.gateway_address}/evaluations/",
            max_open=settings.max_open_evaluations,
            max_ended=settings.max_listed_evaluations,
            quotas=Quotas(settings.max_person_request_bytes, settings.max_open_evaluations // 2),
        )
        self.log = DecisionLog(bus, self.index)
        self.fleet_watch = FleetWatch(bus, self.index, self.instance, limits, settings.heartbeat_s)
        self.remote_loads = RemoteLoads(
            bus,
            self.log,
            BrokerAddress(
                settings.nats_url,
                settings.nats_seed(),
                inbox_prefix("scheduler"),
                settings.tls_authority_file,
                settings.broker_uid,
            ),
            self.instance,
            limits=limits,
            lost_after_s=settings.run_silence_s,
        )
        self.commands = AgentCommands(bus, self.remote_loads.claim, self._give_up)
        self._bus = bus
        self._max_bytes = settings.max_request_bytes
        self._budget_s = settings.default_budget_s
        self._is_open = asyncio.Event()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._advancing = asyncio.Semaphore(_AT_ONCE)
        self._next_polled = 0
        self._patience = Patience()
        #: epoch ns at the monotonic clock's zero, as it was here: later steps change no deadline
        self._began_ns = time.time_ns() - time.monotonic_ns()
        #: evaluations to advance soon, in order
        self._woken: dict[str, None] = {}
        self._wake = asyncio.Event()
        #: ended evaluations whose agents were told
        self._closed: OrderedDict[str, None] = OrderedDict()

    async def work(self) -> None:
        """Fold the log, begin to answer commands, then advance every evaluation with new facts."""
        async with aclosing(self._bus.follow(_EVERYTHING)) as log:
            async for recorded in log:
                if recorded is None:
                    break
                self.index.follow(recorded)
                await bury_unfolded(self._bus, self.index.unfolded)
        self.index.now_ns = await self._log_clock()
        await self.fleet_watch.catalog_known.wait()
        await self.fleet_watch.leases_known.wait()
        await self._answer_commands()
        async for deliveries in self._bus.deliveries("scheduler", batch=64):
            by_evaluation: dict[str, list[Delivery]] = {}
            for delivery in deliveries:
                name = str(getattr(delivery.recorded.fact, "evaluation", ""))
                by_evaluation.setdefault(name, []).append(delivery)
            await asyncio.gather(*(self._handle(*pair) for pair in by_evaluation.items()))

    async def _log_clock(self) -> Callable[[], int]:
        """Return a clock with the time of the server, which stamped the log, as it is now.

        From here on it runs with our monotonic clock: no step lifts or locks a quota.
        """
        try:
            now_ns = (await self._bus.backlog("registry")).at_ns
        except BusError as error:
            _log.warning("the server's time is unknown, ours is used: %s", error)
            now_ns = time.time_ns()
        began_ns = now_ns - time.monotonic_ns()
        return lambda: began_ns + time.monotonic_ns()

    async def _answer_commands(self) -> None:
        answers = RequestAnswers(
            self.index,
            self.log,
            self.fleet_watch,
            self.carry_out_effects,
            max_bytes=self._max_bytes,
            budget_s=self._budget_s,
        )
        commands = (Evaluate, Match, Cancel, ListEvaluations, ShowEvaluation)
        for command in commands:
            await answer_all(self._bus, command, answers.answer, queue="scheduler")
        endpoints = endpoints_of(commands)
        await self._bus.announce(
            ServiceInfo("scheduler", version("mlscope"), "Decides who runs what.", endpoints),
            self.stats,
        )
        self._is_open.set()

    def stats(self) -> dict[str, object]:
        """Return what `$SRV.STATS` reports: the digest of the fold and how far it has come."""
        return {
            "digest": self.index.digest(),
            "sequence": self.index.sequence,
            "open": len(self.index.open),
            "commands": self.commands.under_way,
            "issuing": self.remote_loads.under_way,
            "instance": self.instance,
        }

    async def _handle(self, evaluation: str, deliveries: list[Delivery]) -> None:
        """Advance an evaluation, then acknowledge its facts; else have them delivered again."""
        is_advanced = await self._try(self.advance, evaluation)
        for delivery in deliveries:
            with contextlib.suppress(BusError):
                await (delivery.ack() if is_advanced else delivery.retry())

    async def _try(self, action: Callable[[str], Awaitable[None]], evaluation: str) -> bool:
        """Apply an action to an evaluation; False when it failed: that must not end the service."""
        place = {"evaluation": evaluation}
        try:
            await action(evaluation)
        except (BusError, Undecided) as error:
            _log.warning("could not advance %s: %s", evaluation, error, extra=place)
            return False
        except Exception:  # noqa: BLE001  one evaluation must not stop the others
            _log.exception("could not advance %s", evaluation, extra=place)
            return False
        return True

    async def advance(self, evaluation: str) -> None:
        """Record an evaluation's decisions, carry out its effects, then wake who has the next turn.

        Raises Undecided, BusError.
        """
        if evaluation in self.index.ended:
            if evaluation not in self._closed:
                # The instance that ended it may have died before its agents were told.
                self.carry_out_effects(await self.log.current(evaluation))
            status = self.index.ended[evaluation]
            if status.state == "cancelled" and not status.tables:
                await self.log.settle(evaluation, self._decide)
            return
        agents = self.index.agents_of(evaluation)
        lock = self._locks.setdefault(evaluation, asyncio.Lock())
        async with self._advancing, lock:
            state = await self.log.settle(evaluation, self._decide)
            self.carry_out_effects(state)
        self.wake({self.index.turn(agent) for agent in agents} - {"", evaluation})

    async def _decide(self, state: EvaluationState) -> Sequence[Fact]:
        """Return the decisions on a state, made in a thread where they may take long."""
        now_ns, fleet = self._began_ns + time.monotonic_ns(), self.fleet_watch.fleet()
        ahead_ns = time.time_ns() - now_ns
        observed = self._patience.in_local_time(state, now_ns)
        if is_slow(state):
            return in_wall_time(await asyncio.to_thread(decide, observed, now_ns, fleet), ahead_ns)
        facts = in_wall_time(decide(observed, now_ns, fleet), ahead_ns)
        if not facts and (agents := replacement_agents(state, fleet)):
            self.index.wait_for(state.evaluation, agents)
        return facts

    def carry_out_effects(self, state: EvaluationState) -> None:
        """Carry out what an evaluation's recorded state requires."""
        self.remote_loads.cancel_ended(state)
        self.commands.carry_out(state, effects(state, self.fleet_watch.fleet()))
        if state.is_ended:
            self._closed[state.evaluation] = None
            if len(self._closed) > _MAX_CLOSED:
                self._closed.popitem(last=False)

    async def _give_up(self, start: Start, cause: str) -> None:
        """End the attempt of a start that its agent refuses for good."""

        async def interrupt(state: EvaluationState) -> Sequence[Fact]:
            limits = self.fleet_watch.limits
            return decide_broken(state, start.runs, start.attempt, cause, limits)

        async def settle(evaluation: str) -> None:
            await self.log.settle(evaluation, interrupt)

        await self._try(settle, start.evaluation)
        self.wake([start.evaluation])

    def wake(self, evaluations: Iterable[str]) -> None:
        """Have evaluations advanced soon."""
        self._woken |= dict.fromkeys(evaluations)
        if self._woken:
            self._wake.set()

    async def advance_woken(self) -> None:
        """Advance evaluations that were woken, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            woken, self._woken = self._woken, {}
            await self.advance_each(list(woken))

    async def advance_after_catalog_changes(self) -> None:
        """Wake the open evaluations when agents come, leave or are lost, for ever."""
        await self._is_open.wait()
        while True:
            await self.fleet_watch.changed.wait()
            self.fleet_watch.changed.clear()
            self.wake(self.index.open)

    async def poll(self) -> None:
        """Every second: read on in the log, then advance some of the open evaluations in turn.

        Those whose turn it is on an agent are always among them, so that deadlines, repeats of
        commands and lost issuers are noticed. Loads whose attempt another instance ended are
        cancelled.
        """
        await self._is_open.wait()
        while True:
            await asyncio.sleep(POLL_S)
            try:
                for recorded in await self._bus.read(_EVERYTHING, after=self.index.sequence):
                    self.index.follow(recorded)
                await bury_unfolded(self._bus, self.index.unfolded)
            except BusError as error:
                _log.info("could not read on: %s", error)
                continue
            self.commands.forget_all_but(self.index.open)
            self._patience.forget_all_but(self.index.open)
            self.remote_loads.cancel_all_but(self.index.open)
            names = list(self.index.open)
            polled = [*names, *names][self._next_polled :][: min(_POLLED, len(names))]
            self._next_polled = (self._next_polled + len(polled)) % max(len(names), 1)
            await self.advance_each([*dict.fromkeys([*self.index.turns().values(), *polled])])
            await self._stop_ended_attempts()

    async def advance_each(self, evaluations: Iterable[str]) -> None:
        """Advance the open ones of `evaluations`; the event loop turns in between."""
        for evaluation in evaluations:
            await self._try(self._advance_indexed, evaluation)
            await asyncio.sleep(0)

    async def _advance_indexed(self, evaluation: str) -> None:
        """Advance an evaluation if its indexed state leads to a decision, without reading it.

        One that is being advanced is left alone: between the records of two starts its state has
        half of their group, which would be an order of its own.
        """
        state = self.index.open.get(evaluation)
        lock = self._locks.get(evaluation)
        if state is None or (lock is not None and lock.locked()):
            return
        if await self._decide(state):
            await self.advance(evaluation)
        else:
            self.carry_out_effects(state)

    async def _stop_ended_attempts(self) -> None:
        """Have agents stop attempts that the log says are over: a command may have been lost."""
        busy = self.fleet_watch.leases.busy().items()
        for agent, attempt in [(agent, attempt) for agent, own in busy for attempt in own]:
            try:
                is_over = await self._is_over(attempt)
            except BusError as error:
                place = {"evaluation": attempt.evaluation, "run": attempt.run}
                _log.info("could not read %s: %s", attempt.evaluation, error, extra=place)
                return
            if is_over:
                await self.commands.stop(agent, *attempt)

    async def _is_over(self, attempt: Attempt) -> bool:
        state = self.index.open.get(attempt.evaluation)
        run = state.runs.get(attempt.run) if state else None
        if state is None or run is None or run.attempt != attempt.number:
            state = await self.log.current(attempt.evaluation)
            run = state.runs.get(attempt.run)
        if run is None or state.is_ended:
            return state.is_ended
        return run.attempt > attempt.number or run.state == "interrupted"

    async def close(self) -> None:
        """Cancel commands and loads, and give up the lease: nobody need wait for its end."""
        await self.remote_loads.close()
        await self.commands.close()
        await self.fleet_watch.release()
