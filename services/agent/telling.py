"""What is said of an order's runs: batches, readiness, and one outcome each, whatever happens."""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from schemas.batch import Batch
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from schemas.run import RunReady, Tally
from services.agent.errors import AgentError
from services.agent.issued import Issued, Outcome
from services.agent.measurement import failed


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


class Telling:
    """Says what comes of one order, and knows which of its runs have not ended."""

    def __init__(self, order: WorkOrder, sink: Sink) -> None:
        self.order, self._sink = order, sink
        self._left = dict.fromkeys(order.runs)
        self._counts: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._issued: dict[str, Issued] = {}
        #: called with each run that has ended
        self.on_ended: Callable[[str], None] = _nothing

    @property
    def left(self) -> tuple[str, ...]:
        """Return the runs that have not ended."""
        return tuple(self._left)

    async def batch(self, fact: Batch) -> None:
        """Say a batch of one of the order's runs."""
        if fact.run not in self._counts:
            return
        rows = {"trace": "spans", "query": "queries", "output": "outputs"}[fact.entity]
        self._counts[fact.run].update({f"{fact.entity}_batches": 1, rows: fact.count})
        cause = self._cause(fact.run)
        name = derived_id(cause, fact.schema_name(), fact.sequence)
        await self._sink.put_batch(fact, id=name, cause=cause)

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

    async def outcome(self, outcome: Outcome) -> None:
        """Say how a run ended; a second word on it is not said."""
        if outcome.run not in self._left:
            return
        issued, cause = self._issued.get(outcome.run), self._cause(outcome.run)
        if issued is not None:
            outcome = issued.said_in(outcome)
        await self._sink.put(outcome, id=derived_id(cause, "outcome"), cause=cause)
        self._left.pop(outcome.run, None)
        self.on_ended(outcome.run)

    async def bury(self, error: AgentError) -> None:
        """Say that the runs left failed; what was published of them counts."""
        for run in self.left:
            await self.fail(run, error)

    async def fail(self, run: str, error: AgentError) -> None:
        """Say that a run failed; what was published of it counts."""
        tally = Tally(**self._counts[run])
        await self.outcome(failed(self.order, run, error).model_copy(update={"tally": tally}))

    def _cause(self, run: str) -> str:
        return cause_of(self.order.evaluation, run, self.order.attempt)


def _nothing(_: str) -> None:
    return
