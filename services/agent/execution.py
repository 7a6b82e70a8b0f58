"""An order carried out by a worker that is heard, watched and, if need be, ended."""

import asyncio
import contextlib
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.catalogue import FACTS
from schemas.codec import decode_body, encode_body
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.allowances import NO_MORE, Allowances
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.channel import Words
from services.agent.control import MOST_WAITING
from services.agent.errors import AgentError, RingBroken, RunTimedOut, Stopped, WorkerDied
from services.agent.issued import Issued, Outcome
from services.agent.process import WorkerProcess, words_of_run
from services.agent.telling import Telling

_LOOK_S = 0.05
_STOP_GRACE_S = 5.0
_UNHEEDED = "the worker did not heed it and was killed"


class Execution:
    """One order in one worker. It ends with an outcome said for every run, in any case.

    What the worker says is heard, what it hands over is published, and both it and the stream are
    watched: three loops, because a full stream must hold up publishing alone.
    """

    def __init__(
        self,
        telling: Telling,
        worker: WorkerProcess,
        manifests_folder: Path,
        silence_s: float,
        allowed: Allowances = NO_MORE,
        roof: Roof = NO_ROOF,
    ) -> None:
        self.telling, self._worker = telling, worker
        self._manifests_folder, self._silence_s = manifests_folder, silence_s
        self._allowed, self._roof = allowed, roof
        self._answers: dict[tuple[str, int], asyncio.Future[Words]] = {}
        self._killed_for: AgentError | None = None
        #: runs that are asked to end: since when (CLOCK_MONOTONIC ns), and why
        self._stopping: dict[str, tuple[int, str]] = {}
        #: how the worker said that runs ended
        self._ends: dict[str, Outcome] = {}
        self._ended_ns = 0
        self._has_said: set[str] = set()
        self._heard_more = asyncio.Event()
        self._is_ring_broken = False
        #: since when the worker is of no more use, 0 while it is
        self._gone_ns = 0
        self._loops: asyncio.TaskGroup
        telling.on_ended = self._on_ended

    @property
    def order(self) -> WorkOrder:
        """Return the order that is carried out."""
        return self.telling.order

    async def carry_out(self) -> bool:
        """Do the order; False when the worker is of no more use. Raises what the sink raises."""
        words = {"kind": "order", "order": encode_body(self.order)}
        places = {"manifests_folder": str(self._manifests_folder)}
        goods = {"brought": self._worker.goods.words(), "allowed": self._allowed.words()}
        await self._worker.send({**words, **places, **goods, "roof": self._roof.words()})
        try:
            async with asyncio.TaskGroup() as self._loops:
                hearing = self._loops.create_task(self._hear())
                self._loops.create_task(self._publish(hearing))
                self._loops.create_task(self._watch(hearing))
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        return hearing.result() and self._killed_for is None

    async def stop(self, run: str, reason: str) -> None:
        """Ask a run to end; a worker that does not heed it is killed."""
        if run in self.telling.left:
            self._stopping.setdefault(run, (now_ns(), reason))
            await self._worker.send({**self._words("stop", run), "reason": reason})

    async def query(self, run: str, words: Words, timeout_s: float) -> Words:
        """Hand a remote query to the worker and return its answer."""
        received_ns = now_ns()
        key = (run, int(words["query"]))
        if len(self._answers) >= MOST_WAITING:
            return _refusal(key[1], "busy")
        future: asyncio.Future[Words] = asyncio.get_running_loop().create_future()
        if run not in self.telling.left or self._answers.setdefault(key, future) is not future:
            return _refusal(key[1], "this query is under way, or the run has ended")
        try:
            await self._worker.send({**words, "kind": "query", "received_ns": received_ns})
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return _refusal(key[1], f"not answered in {timeout_s:g} s")
        finally:
            self._answers.pop(key, None)

    async def finish(self, run: str, issued: Issued) -> None:
        """Say that a remote load is through; `issued` is what its issuer says of it."""
        self.telling.issued(run, issued)
        await self._worker.send(self._words("finish", run))

    async def _hear(self) -> bool:
        """Heed the worker until it has done the order; False when it is gone."""
        while (heard := await self._worker.receive()) is not None:
            if heard["kind"] == "idle":
                break
            self._heed(heard)
        self._heard_more.set()
        is_done = all(run in self._ends for run in self.telling.left)
        if heard is not None and not is_done:
            self._end_worker(WorkerDied("is done, but did not say how runs ended"))
        return heard is not None and is_done

    def _heed(self, heard: Words) -> None:
        if heard["kind"] == "answer":
            future = self._answers.get((heard["run"], heard["query"]))
            if future is not None and not future.done():
                future.set_result(heard)
        elif heard["kind"] == "ready":
            self._loops.create_task(self.telling.ready(heard["run"]))
        elif heard["kind"] == "ended":
            outcome = decode_body(FACTS[f"run.{heard['happened']}"], heard["body"])
            assert isinstance(outcome, RunCompleted | RunFailed)
            self._ends[outcome.run], self._ended_ns = outcome, now_ns()
            self._heard_more.set()

    async def _publish(self, hearing: "asyncio.Task[bool]") -> None:
        """Publish what is handed over, and each run's end behind its last batch."""
        is_through = False
        while not is_through:
            is_through, ended = hearing.done(), tuple(self._ends.values())
            if await self._publish_batches():
                for outcome in ended:
                    self._say(outcome)
            if not is_through:
                await self._until_more()
        if self._is_ring_broken or not hearing.result():
            error = self._killed_for or await self._worker.death()
            for run in self.telling.left:
                self._say(self.telling.failure(run, self._blamed(run, error)))

    async def _publish_batches(self) -> bool:
        """Publish what was handed over; False when the ring is broken, the end of its worker."""
        try:
            while not self._is_ring_broken and (fact := next(self._worker.batches(), None)):
                await self.telling.batch(fact)
        except RingBroken as error:
            self._is_ring_broken = True
            self._end_worker(error)
        return not self._is_ring_broken

    async def _until_more(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._heard_more.wait()
        self._heard_more.clear()

    def _say(self, outcome: Outcome) -> None:
        """Begin to say how a run ended; it is waited for by nobody but the end of the order."""
        if outcome.run not in self._has_said:
            self._has_said.add(outcome.run)
            self._loops.create_task(self.telling.outcome(outcome))

    def _blamed(self, run: str, error: AgentError) -> AgentError:
        if run not in self._stopping:
            return error
        reason = self._stopping[run][1]
        return Stopped(f"{reason or 'stopped'}; {error}" if str(error) == _UNHEEDED else reason)

    async def _watch(self, hearing: "asyncio.Task[bool]") -> None:
        """End a worker that shows no sign of life, and let go what a full stream won't take."""
        began_ns = now_ns()
        while self.telling.left or not hearing.done():
            await asyncio.sleep(_LOOK_S)
            if not hearing.done():
                error = self._complaint(began_ns)
                if error is not None and self._killed_for is None:
                    self._end_worker(error)
            elif not hearing.result():
                self._gone_ns = self._gone_ns or now_ns()
            if self.telling.is_held_back:
                self._let_go()

    def _complaint(self, began_ns: int) -> AgentError | None:
        """Return what is wrong with the worker, if anything is."""
        under_way = [run for run in self.telling.left if run not in self._ends]
        # A stopped run may wait for its turn: it has the grace again when another ended.
        if under_way and all(self._is_overdue(run, self._ended_ns) for run in under_way):
            return Stopped(_UNHEEDED)
        if (excess := self._worker.excess()) is not None:
            return excess
        if self._worker.silent_s() > self._silence_s:
            return RunTimedOut(self._silence_s, "one predict call, or a sign of life,")
        order = self.order
        bound_s = sum(p.timeout_s for p in order.session.runs if p.run in order.runs)
        if _since_s(began_ns) > bound_s + self._silence_s:
            return RunTimedOut(bound_s, "opening and running")
        return None

    def _let_go(self) -> None:
        """Give up what a full stream refuses of runs that were stopped, or lost their worker."""
        for run in self.telling.left:
            lost_ns = 0 if run in self._ends else self._gone_ns
            if self._is_overdue(run) or (lost_ns and _since_s(lost_ns) > _STOP_GRACE_S):
                self.telling.let_go(run)
                if run in self._ends:
                    self._say(self._ends[run])

    def _is_overdue(self, run: str, since_ns: int = 0) -> bool:
        """Say whether a run was asked to end longer ago than the grace; at least `since_ns`."""
        if run not in self._stopping:
            return False
        return _since_s(max(since_ns, self._stopping[run][0])) > _STOP_GRACE_S

    def _end_worker(self, error: AgentError) -> None:
        self._killed_for = self._killed_for or error
        self._worker.kill()

    def _on_ended(self, ended: str) -> None:
        self._stopping.pop(ended, None)
        for (run, number), future in self._answers.items():
            if run == ended and not future.done():
                future.set_result(_refusal(number, "the run has ended"))

    def _words(self, kind: str, run: str) -> Words:
        return words_of_run(kind, self.order.evaluation, run, self.order.attempt)


def _refusal(query: int, error: str) -> Words:
    return {"query": query, "status": 1, "service_ns": 0, "error": error}


def _since_s(stamp_ns: int) -> float:
    return (now_ns() - stamp_ns) * 1e-9
