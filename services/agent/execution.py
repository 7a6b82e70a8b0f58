"""An order carried out by a worker: batches and outcomes become facts, whatever happens to it."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Protocol

from mlscope.tracing.clock import now_ns
from schemas.batch import Batch
from schemas.catalogue import FACTS
from schemas.codec import decode_body, encode_body
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from schemas.run import RunCompleted, RunFailed, RunReady, Tally
from services.agent.channel import Words
from services.agent.errors import AgentError, RingBroken, RunTimedOut, Stopped
from services.agent.measurement import failed
from services.agent.process import WorkerProcess, words_of_run

_LOOK_S = 0.05
_STOP_GRACE_S = 5.0

Outcome = RunCompleted | RunFailed


class Sink(Protocol):
    """Takes facts: the bus, or a file."""

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> None:  # noqa: A002
        """Take a batch; returns when there is room for the next."""
        ...

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Take a fact, after every batch put before it is safe."""
        ...


def cause_of(evaluation: str, run: str, attempt: int) -> str:
    """Return the id that everything an agent says of an attempt derives from."""
    return derived_id(evaluation, f"start {run}", attempt)


class Execution:
    """One order in one worker. It ends with an outcome said for every run, in any case."""

    def __init__(
        self,
        order: WorkOrder,
        worker: WorkerProcess,
        sink: Sink,
        manifests_folder: Path,
        silence_s: float,
    ) -> None:
        self.order, self._worker, self._sink = order, worker, sink
        self._manifests_folder, self._silence_s = manifests_folder, silence_s
        self._left = dict.fromkeys(order.runs)
        self._counts: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._issued: dict[str, Tally] = {}
        self._answers: dict[tuple[str, int], asyncio.Future[Words]] = {}
        self._killed_for: AgentError | None = None
        self._stopping: dict[str, int] = {}
        self._timeout_s = sum(p.timeout_s for p in order.session.runs if p.run in order.runs)

    @property
    def runs_left(self) -> tuple[str, ...]:
        """Return the runs that have not ended."""
        return tuple(self._left)

    async def carry_out(self) -> bool:
        """Do the order; False when the worker is of no more use."""
        words = {"kind": "order", "order": encode_body(self.order)}
        await self._worker.send({**words, "manifests_folder": str(self._manifests_folder)})
        watching = asyncio.create_task(self._watch())
        try:
            while (heard := await self._worker.receive()) is not None:
                if heard["kind"] == "idle":
                    return not self._left
                await self._heed(heard)
        except RingBroken as error:
            self._killed_for = error
            self._worker.kill()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        await self._bury()
        return False

    async def stop(self, run: str, reason: str) -> None:
        """Ask a run to end; a worker that does not heed it is killed."""
        if run in self._left:
            self._stopping.setdefault(run, now_ns())
            await self._worker.send({**self._words("stop", run), "reason": reason})

    async def query(self, run: str, words: Words, timeout_s: float) -> Words:
        """Hand a remote query to the worker and return its answer."""
        key = (run, int(words["query"]))
        future = asyncio.get_running_loop().create_future()
        if self._answers.setdefault(key, future) is not future or run not in self._left:
            return _refusal(key[1], "this query is under way, or the run has ended")
        try:
            await self._worker.send({**words, "kind": "query"})
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return _refusal(key[1], f"not answered in {timeout_s:g} s")
        finally:
            self._answers.pop(key, None)

    async def finish(self, run: str, issued: Tally) -> None:
        """Say that a remote load is through; `issued` is what its issuer published."""
        self._issued[run] = issued
        await self._worker.send(self._words("finish", run))

    async def _heed(self, heard: Words) -> None:
        if heard["kind"] == "answer":
            future = self._answers.get((heard["run"], heard["query"]))
            if future is not None and not future.done():
                future.set_result(heard)
        elif heard["kind"] == "ready":
            await self._say_ready(heard["run"])
        elif heard["kind"] == "ended":
            outcome = decode_body(FACTS[f"run.{heard['happened']}"], heard["body"])
            assert isinstance(outcome, RunCompleted | RunFailed)
            await self._take_batches()
            await self._say(outcome)

    async def _watch(self) -> None:
        """Take batches while the run goes on, and end a worker that shows no sign of life."""
        opened_ns = now_ns()
        while True:
            await asyncio.sleep(_LOOK_S)
            await self._take_batches()
            error = self._complaint(opened_ns)
            if error is not None:
                self._killed_for = error
                self._worker.kill()
                return

    def _complaint(self, opened_ns: int) -> AgentError | None:
        overdue = [ns for ns in self._stopping.values() if _since_s(ns) > _STOP_GRACE_S]
        if overdue:
            return Stopped("stopped on request; the worker did not heed it and was killed")
        if self._worker.silent_s() > self._silence_s:
            return RunTimedOut(self._silence_s, "one predict call, or a sign of life,")
        if _since_s(opened_ns) > self._timeout_s + self._silence_s:
            return RunTimedOut(self._timeout_s, "opening and running")
        return None

    async def _take_batches(self) -> None:
        while batches := list(self._worker.batches()):
            for fact in batches:
                if fact.run not in self._counts:
                    continue
                self._count(fact)
                cause = cause_of(fact.evaluation, fact.run, fact.attempt)
                name = derived_id(cause, fact.schema_name(), fact.sequence)
                await self._sink.put_batch(fact, id=name, cause=cause)

    def _count(self, fact: Batch) -> None:
        rows = {"trace": "spans", "query": "queries", "output": "outputs"}[fact.entity]
        self._counts[fact.run].update({f"{fact.entity}_batches": 1, rows: fact.count})

    async def _bury(self) -> None:
        """Say how the runs ended that a dead worker leaves; what it handed over counts."""
        error = self._killed_for or await self._worker.death()
        with contextlib.suppress(RingBroken):
            await self._take_batches()
        for run in list(self._left):
            why = Stopped() if run in self._stopping else error
            outcome = failed(self.order, run, why)
            tally = Tally(**self._counts[run])
            await self._say(outcome.model_copy(update={"tally": tally}))

    async def _say(self, outcome: Outcome) -> None:
        if outcome.run not in self._left:
            return
        cause = cause_of(outcome.evaluation, outcome.run, outcome.attempt)
        issued = self._issued.get(outcome.run)
        if issued is not None:
            outcome = outcome.model_copy(update={"tally": _with_issued(outcome.tally, issued)})
        await self._sink.put(outcome, id=derived_id(cause, "outcome"), cause=cause)
        self._left.pop(outcome.run, None)
        self._stopping.pop(outcome.run, None)
        for (run, number), future in self._answers.items():
            if run == outcome.run and not future.done():
                future.set_result(_refusal(number, "the run has ended"))

    async def _say_ready(self, run: str) -> None:
        order = self.order
        cause = cause_of(order.evaluation, run, order.attempt)
        fact = RunReady(
            evaluation=order.evaluation, run=run, attempt=order.attempt, agent=order.agent
        )
        await self._sink.put(fact, id=derived_id(cause, "ready"), cause=cause)

    def _words(self, kind: str, run: str) -> Words:
        return words_of_run(kind, self.order.evaluation, run, self.order.attempt)


def _with_issued(tally: Tally, issued: Tally) -> Tally:
    """Return a remote run's tally: the agent's spans and outputs, the issuer's queries."""
    return tally.model_copy(
        update={
            "query_batches": issued.query_batches,
            "queries": issued.queries,
            "failed_queries": issued.failed_queries,
        }
    )


def _refusal(query: int, error: str) -> Words:
    return {"query": query, "status": 1, "service_ns": 0, "error": error}


def _since_s(stamp_ns: int) -> float:
    return (now_ns() - stamp_ns) * 1e-9
