"""What is said of an order's runs: batches, readiness, and one outcome each, whatever happens."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from schemas.batch import Batch
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from schemas.run import RunFailed, RunReady, Tally
from services.agent.dropped import Dropped, announced, counts_of
from services.agent.errors import AgentError
from services.agent.issued import Issued, Outcome
from services.agent.measurement import failed


class Sink(Protocol):
    """Takes facts: the bus, or a file."""

    @property
    def is_full(self) -> bool:
        """Say whether batches wait because there is no room for them."""
        ...

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Take a batch once there is room for it; False when its cause was let go."""
        ...

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Take a fact, after every batch of its cause is safe or given up."""
        ...

    async def settle(self, cause: str) -> Dropped:
        """Wait until every batch of a cause is safe or given up; return the latter, once."""
        ...

    def let_go(self, cause: str) -> None:
        """Give up the batches of a cause that there is no room for, and all to come."""
        ...


def cause_of(evaluation: str, run: str, attempt: int) -> str:
    """Return the id that everything an agent says of an attempt derives from."""
    return derived_id(evaluation, f"start {run}", attempt)


class Telling:
    """Says what comes of one order, and knows which of its runs have not ended."""

    def __init__(self, order: WorkOrder, sink: Sink) -> None:
        self.order, self._sink = order, sink
        self._left = dict.fromkeys(order.runs)
        #: runs whose end is being said
        self._ending: set[str] = set()
        self._sent: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._unsent: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._issued: dict[str, Issued] = {}
        #: called with each run that has ended
        self.on_ended: Callable[[str], None] = _nothing

    @property
    def left(self) -> tuple[str, ...]:
        """Return the runs that have not ended."""
        return tuple(self._left)

    @property
    def is_held_back(self) -> bool:
        """Say whether batches wait because there is no room for them."""
        return self._sink.is_full

    async def batch(self, fact: Batch) -> None:
        """Say a batch of one of the order's runs; of one that is ending nothing more is said."""
        if fact.run not in self._left or fact.run in self._ending:
            return
        cause = self._cause(fact.run)
        name = derived_id(cause, fact.schema_name(), fact.sequence)
        counts = self._unsent[fact.run]
        try:
            if await self._sink.put_batch(fact, id=name, cause=cause):
                counts = self._sent[fact.run]
        finally:
            counts.update(counts_of(fact))

    async def ready(self, run: str) -> None:
        """Say that a remote run's load may be issued."""
        order, cause = self.order, self._cause(run)
        fact = RunReady(
            evaluation=order.evaluation, run=run, attempt=order.attempt, agent=order.agent
        )
        await self._sink.put(fact, id=derived_id(cause, "ready"), cause=cause)

    def issued(self, run: str, issued: Issued) -> None:
        """Note what the issuer of a remote run says of its load, for the run's outcome."""
        self._issued[run] = issued

    def let_go(self, run: str) -> None:
        """Give up the batches of a run that there is no room for; its end counts them."""
        self._sink.let_go(self._cause(run))

    async def outcome(self, outcome: Outcome) -> None:
        """Say how a run ended once its batches are safe or given up; a second word is not said."""
        run = outcome.run
        if run not in self._left or run in self._ending:
            return
        with self._ends(run):
            cause = self._cause(run)
            dropped = await self._sink.settle(cause)
            outcome = announced(outcome, self._sent[run], dropped)
            issued = self._issued.get(run)
            if issued is not None:
                outcome = issued.said_in(outcome)
            await self._sink.put(outcome, id=derived_id(cause, "outcome"), cause=cause)
            self._left.pop(run, None)
        self.on_ended(run)

    async def bury(self, error: AgentError) -> None:
        """Say that the runs left failed; what is safe of them counts."""
        for run in self.left:
            await self.fail(run, error)

    async def fail(self, run: str, error: AgentError) -> None:
        """Say that a run failed; what is safe of it counts."""
        await self.outcome(self.failure(run, error))

    def failure(self, run: str, error: AgentError) -> RunFailed:
        """Return the bad end of a run whose worker can't say it; its tally is what came of it."""
        tally = Tally(**(self._sent[run] + self._unsent[run]))
        return failed(self.order, run, error).model_copy(update={"tally": tally})

    @contextlib.contextmanager
    def _ends(self, run: str) -> Iterator[None]:
        self._ending.add(run)
        try:
            yield
        finally:
            self._ending.discard(run)

    def _cause(self, run: str) -> str:
        return cause_of(self.order.evaluation, run, self.order.attempt)


def _nothing(_: str) -> None:
    return
