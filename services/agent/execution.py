"""An order carried out by a worker that is heard, watched and, if need be, ended."""

import asyncio
import contextlib
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.catalogue import FACTS
from schemas.codec import decode_body, encode_body
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.channel import Words
from services.agent.control import MOST_WAITING
from services.agent.errors import AgentError, RingBroken, RunTimedOut, Stopped
from services.agent.issued import Issued
from services.agent.process import WorkerProcess, words_of_run
from services.agent.telling import Telling

_LOOK_S = 0.05
_STOP_GRACE_S = 5.0


class Execution:
    """One order in one worker. It ends with an outcome said for every run, in any case."""

    def __init__(
        self, telling: Telling, worker: WorkerProcess, manifests_folder: Path, silence_s: float
    ) -> None:
        self.telling, self._worker = telling, worker
        self._manifests_folder, self._silence_s = manifests_folder, silence_s
        self._answers: dict[tuple[str, int], asyncio.Future[Words]] = {}
        self._killed_for: AgentError | None = None
        #: since when (CLOCK_MONOTONIC ns) each run is asked to end
        self._stopping: dict[str, int] = {}
        self._taking = asyncio.Lock()
        self._heard_all = False
        telling.on_ended = self._on_ended

    @property
    def order(self) -> WorkOrder:
        """Return the order that is carried out."""
        return self.telling.order

    async def carry_out(self) -> bool:
        """Do the order; False when the worker is of no more use."""
        words = {"kind": "order", "order": encode_body(self.order)}
        await self._worker.send({**words, "manifests_folder": str(self._manifests_folder)})
        hearing: asyncio.Task[bool] = asyncio.create_task(self._hear())
        watching: asyncio.Task[None] = asyncio.create_task(self._watch())
        try:
            both = (hearing, watching)
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            is_useful = hearing.result()
        except RingBroken as error:
            self._killed_for, is_useful = error, False
            self._worker.kill()
        finally:
            for task in (hearing, watching):
                task.cancel()
            await asyncio.wait((hearing, watching))
        if not is_useful:
            await self._bury()
        return is_useful

    async def stop(self, run: str, reason: str) -> None:
        """Ask a run to end; a worker that does not heed it is killed."""
        if run in self.telling.left:
            self._stopping.setdefault(run, now_ns())
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
        try:
            while (heard := await self._worker.receive()) is not None:
                if heard["kind"] == "idle":
                    return not self.telling.left
                await self._heed(heard)
            return False
        finally:
            self._heard_all = True

    async def _heed(self, heard: Words) -> None:
        if heard["kind"] == "answer":
            future = self._answers.get((heard["run"], heard["query"]))
            if future is not None and not future.done():
                future.set_result(heard)
        elif heard["kind"] == "ready":
            await self.telling.ready(heard["run"])
        elif heard["kind"] == "ended":
            outcome = decode_body(FACTS[f"run.{heard['happened']}"], heard["body"])
            assert isinstance(outcome, RunCompleted | RunFailed)
            await self._take_batches()
            await self.telling.outcome(outcome)

    async def _watch(self) -> None:
        """Take batches while the order is done, and end a worker that shows no sign of life."""
        began_ns = now_ns()
        while not self._heard_all:
            await asyncio.sleep(_LOOK_S)
            await self._take_batches()
            error = self._complaint(began_ns)
            if error is not None:
                self._killed_for = error
                self._worker.kill()
                return

    def _complaint(self, began_ns: int) -> AgentError | None:
        """Return what is wrong with the worker, if anything is."""
        if any(_since_s(stamp) > _STOP_GRACE_S for stamp in self._stopping.values()):
            return Stopped("stopped on request; the worker did not heed it and was killed")
        if self._worker.silent_s() > self._silence_s:
            return RunTimedOut(self._silence_s, "one predict call, or a sign of life,")
        order = self.order
        bound_s = sum(p.timeout_s for p in order.session.runs if p.run in order.runs)
        if _since_s(began_ns) > bound_s + self._silence_s:
            return RunTimedOut(bound_s, "opening and running")
        return None

    async def _take_batches(self) -> None:
        async with self._taking:
            while batches := list(self._worker.batches()):
                for fact in batches:
                    await self.telling.batch(fact)

    async def _bury(self) -> None:
        """Say how the runs ended that a dead worker leaves; what it handed over counts."""
        error = self._killed_for or await self._worker.death()
        with contextlib.suppress(RingBroken):
            await self._take_batches()
        for run in self.telling.left:
            await self.telling.fail(run, Stopped() if run in self._stopping else error)

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
