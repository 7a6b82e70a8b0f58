"""The scheduler as a service: triggers, decisions, effects; and a look at the clock every second.

Several may run. Each folds the whole log; who decides is settled by guarded writes.
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

from mlscope.bus.bus import Bus, Delivery, ServiceFacts
from mlscope.bus.errors import BusError
from mlscope.bus.permissions import inbox_prefix
from mlscope.settings import Settings
from schemas.message import Fact
from schemas.request import Cancel, Evaluate, ListEvaluations, ShowEvaluation
from schemas.subjects import ROOT, command_subject
from services.scheduler.answers import Answers
from services.scheduler.board import Board
from services.scheduler.commanding import Commander
from services.scheduler.decide import decide, decide_broken, is_slow, stand_ins
from services.scheduler.effects import Start, effects
from services.scheduler.errors import Undecided
from services.scheduler.fleet import Limits, limits_of
from services.scheduler.issuing import Issuing
from services.scheduler.recording import Recorder
from services.scheduler.remote_load import Where
from services.scheduler.state import EvaluationState
from services.scheduler.world import World

_log = logging.getLogger(__name__)
_EVERYTHING = f"{ROOT}.*.>"
_LOOK_S = 1.0
_LOOKED_AT = 200
_AT_ONCE = 16
_SEEN_OFF = 10_000


async def serve(
    bus: Bus, settings: Settings, stop: asyncio.Event, limits: Limits | None = None
) -> None:
    """Decide until `stop` is set."""
    scheduler = Scheduler(bus, settings, limits or limits_of(settings))
    loops = (
        scheduler.world.watch_catalog(),
        scheduler.world.watch_leases(),
        scheduler.world.hold_lease(),
        scheduler.work(),
        scheduler.look(),
        scheduler.heed_catalog(),
        scheduler.heed_woken(),
    )
    tasks = [asyncio.create_task(loop) for loop in (*loops, _wait(stop))]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await scheduler.close()


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


class Scheduler:
    """One instance: its board, its view of the world, what it has on its way."""

    def __init__(self, bus: Bus, settings: Settings, limits: Limits) -> None:
        """Start from nothing; the loops of `serve` do the rest."""
        self.instance = f"s{secrets.token_hex(6)}"
        self.board = Board(
            pages=f"{settings.gateway_address}/evaluations/",
            most_open=settings.max_open_evaluations,
            most_ended=settings.max_listed_evaluations,
        )
        self.recorder = Recorder(bus, self.board)
        self.world = World(bus, self.board, self.instance, limits, settings.heartbeat_s)
        where = Where(settings.nats_url, settings.nats_seed(), inbox_prefix("scheduler"))
        self.issuing = Issuing(bus, self.recorder, where, self.instance)
        self.commander = Commander(bus, self.issuing.claim, self._give_up)
        self.issuing.commander = self.commander
        self.issuing.limits = limits
        self.issuing.lost_after_s = settings.run_silence_s
        self._bus = bus
        self._most_bytes = settings.max_request_bytes
        self._ready = asyncio.Event()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._looked_at = 0
        self._woken: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._seen_off: OrderedDict[str, None] = OrderedDict()

    async def work(self) -> None:
        """Fold the log, answer, then consider every evaluation something is said of."""
        async with aclosing(self._bus.follow(_EVERYTHING)) as log:
            async for recorded in log:
                if recorded is None:
                    break
                self.board.follow(recorded)
        await self.world.known.wait()
        await self.world.leases_known.wait()
        await self._open()
        async for deliveries in self._bus.deliveries("scheduler", batch=64):
            await self._heed(deliveries)

    async def _open(self) -> None:
        answers = Answers(
            self.board,
            self.recorder,
            self.world,
            self.act,
            most_bytes=self._most_bytes,
        )
        commands = (Evaluate, Cancel, ListEvaluations, ShowEvaluation)
        for command in commands:
            await self._bus.answer(command_subject(command), answers.answer, queue="scheduler")
        endpoints = {command.verb: command_subject(command) for command in commands}
        await self._bus.announce(
            ServiceFacts("scheduler", version("mlscope"), "Decides who runs what.", endpoints),
            self.stats,
        )
        self._ready.set()

    def stats(self) -> dict[str, object]:
        """Return what `$SRV.STATS` tells: the digest of the fold and how far it has come."""
        return {
            "digest": self.board.digest(),
            "sequence": self.board.sequence,
            "open": len(self.board.open),
            "commands": self.commander.on_their_way,
            "issuing": self.issuing.under_way,
            "instance": self.instance,
        }

    async def _heed(self, deliveries: Sequence[Delivery]) -> None:
        by_name: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            name = str(getattr(delivery.recorded.fact, "evaluation", ""))
            by_name.setdefault(name, []).append(delivery)
        await asyncio.gather(*(self._heed_one(*pair) for pair in by_name.items()))

    async def _heed_one(self, evaluation: str, deliveries: list[Delivery]) -> None:
        """Consider an evaluation, then acknowledge what was said of it; else have it said again."""
        is_done = await self._try(self.consider, evaluation)
        for delivery in deliveries:
            with contextlib.suppress(BusError):
                await (delivery.ack() if is_done else delivery.retry())

    async def _try(self, look: Callable[[str], Awaitable[None]], evaluation: str) -> bool:
        """Look at an evaluation; False when that failed, which must not end the service."""
        try:
            await look(evaluation)
        except (BusError, Undecided) as error:
            _log.warning("could not look at %s: %s", evaluation, error)
            return False
        except Exception:  # noqa: BLE001  one evaluation must not stop the others
            _log.exception("could not look at %s", evaluation)
            return False
        return True

    async def consider(self, evaluation: str) -> None:
        """Record what follows for an evaluation, carry out what must be, then wake who is next.

        Raises Undecided, BusError.
        """
        if evaluation in self.board.ended:
            await self._see_off(evaluation)
            return
        before = self.board.agents_of(evaluation)
        lock = self._locks.setdefault(evaluation, asyncio.Lock())
        async with self._room, lock:
            state = await self.recorder.settle(evaluation, self._follows)
            self.act(state)
        self.wake({self.board.turn(agent) for agent in before} - {"", evaluation})

    async def _see_off(self, evaluation: str) -> None:
        """Have agents hear once that an evaluation has ended: who ended it may have died since."""
        if evaluation not in self._seen_off:
            self.act(await self.recorder.current(evaluation))

    async def _follows(self, state: EvaluationState) -> Sequence[Fact]:
        """Decide, in a thread where that may take long."""
        now_ns, fleet = time.time_ns(), self.world.fleet()
        if is_slow(state):
            return await asyncio.to_thread(decide, state, now_ns, fleet)
        facts = decide(state, now_ns, fleet)
        if not facts and (agents := stand_ins(state, fleet)):
            self.board.stand_in(state.evaluation, agents)
        return facts

    def wake(self, evaluations: Iterable[str]) -> None:
        """Have evaluations looked at soon."""
        self._woken |= dict.fromkeys(evaluations)
        if self._woken:
            self._wake.set()

    async def heed_woken(self) -> None:
        """Look at evaluations that were woken, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            woken, self._woken = self._woken, {}
            await self._glance_at(list(woken))

    def act(self, state: EvaluationState) -> None:
        """Carry out what must be, given an evaluation's recorded state."""
        self.issuing.drop_stale(state)
        self.commander.want(state, list(effects(state, self.world.fleet())))
        if state.is_ended:
            self._seen_off[state.evaluation] = None
            if len(self._seen_off) > _SEEN_OFF:
                self._seen_off.popitem(last=False)

    async def _give_up(self, start: Start, cause: str) -> None:
        """End the attempt of a start that its agent refuses for good."""

        async def end(state: EvaluationState) -> Sequence[Fact]:
            return decide_broken(state, start.runs, start.attempt, cause, self.world.limits)

        async def settle(evaluation: str) -> None:
            await self.recorder.settle(evaluation, end)

        await self._try(settle, start.evaluation)
        self.wake([start.evaluation])

    async def _glance(self, evaluation: str) -> None:
        """Consider an evaluation if the board says that something follows."""
        state = self.board.open.get(evaluation)
        if state is None:
            return
        if await self._follows(state):
            await self.consider(evaluation)
        else:
            self.act(state)

    async def heed_catalog(self) -> None:
        """Look at the open evaluations anew when agents come, leave or are lost."""
        await self._ready.wait()
        while True:
            await self.world.changed.wait()
            self.world.changed.clear()
            self.wake(self.board.open)

    async def look(self) -> None:
        """Every second: read on in the log, then look at some of the open evaluations in turn.

        Those that have their turn on an agent are always among them: deadlines, repeats of
        commands, lost issuers. Loads whose attempt another instance ended are dropped.
        """
        await self._ready.wait()
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                for recorded in await self._bus.read(_EVERYTHING, after=self.board.sequence):
                    self.board.follow(recorded)
            except BusError as error:
                _log.info("could not read on: %s", error)
                continue
            self.commander.forget_all_but(self.board.open)
            self.issuing.drop_all_but(self.board.open)
            names = list(self.board.open)
            some = [*names, *names][self._looked_at :][: min(_LOOKED_AT, len(names))]
            self._looked_at = (self._looked_at + len(some)) % max(len(names), 1)
            await self._glance_at([*dict.fromkeys([*self.board.turns().values(), *some])])
            await self._stop_strays()

    async def _glance_at(self, names: list[str]) -> None:
        for name in names:
            await self._try(self._glance, name)
            await asyncio.sleep(0)

    async def _stop_strays(self) -> None:
        """Have agents end attempts that the log knows to be over: a stop may have been lost."""
        for agent, attempts in self.world.leases.busy().items():
            for evaluation, run, attempt in attempts:
                try:
                    is_over = await self._is_over(evaluation, run, attempt)
                except BusError as error:
                    _log.info("could not read of %s: %s", evaluation, error)
                    return
                if is_over:
                    await self.commander.stop(agent, evaluation, run, attempt)

    async def _is_over(self, evaluation: str, run: str, attempt: int) -> bool:
        known = self.board.open.get(evaluation)
        if known is None or run not in known.runs or known.runs[run].attempt != attempt:
            known = await self.recorder.current(evaluation)
        found = known.runs.get(run)
        if found is None or known.is_ended:
            return known.is_ended
        return found.attempt > attempt or found.state == "interrupted"

    async def close(self) -> None:
        """End what is on its way, and let the lease go: nobody need wait for it to run out."""
        await self.issuing.close()
        await self.commander.close()
        await self.world.release()
