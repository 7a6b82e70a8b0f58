"""Publishes the facts of an order's runs: batches, readiness, and exactly one outcome each."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from mlscope.tracing.clock_offset import ClockOffset
from schemas.batch import Batch
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from schemas.run import RunFailed, RunReady, Tally
from services.agent.errors import AgentError
from services.agent.host.publishing.dropped_batches import (
    DroppedBatches,
    batch_counts,
    with_stored_counts,
)
from services.agent.link.failures import failed_before_start
from services.agent.link.issued_load import IssuedLoad
from services.agent.link.messages import Outcome


class Sink(Protocol):
    """Takes facts: the bus, or a file."""

    @property
    def is_full(self) -> bool:
        """Whether batches wait because there is no room for them."""
        ...

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Take the batch `fact` under its `id` once there is room.

        Returns False where its `cause` was dropped.
        """
        ...

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Take a fact under its `id`, after every batch of its `cause` is stored or dropped."""
        ...

    async def settle(self, cause: str) -> DroppedBatches:
        """Wait until every batch of a cause is stored or dropped; return the latter, once."""
        ...

    def drop_refused(self, cause: str) -> None:
        """Drop the batches of a cause that there is no room for, and all that follow."""
        ...


def cause_of(evaluation: str, run: str, attempt: int) -> str:
    """Return the id that the ids of all facts about an `attempt` derive from.

    It is one of a `run` of an `evaluation`.
    """
    return derived_id(evaluation, f"start {run}", attempt)


class OutcomePublisher:
    """Publishes the facts of one order's runs, and knows which runs have not ended."""

    def __init__(self, order: WorkOrder, sink: Sink) -> None:
        self.order, self._sink = order, sink
        self._open_runs = dict.fromkeys(order.runs)
        #: runs whose outcome is being published
        self._ending: set[str] = set()
        self._sent: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._unsent: dict[str, Counter[str]] = {run: Counter() for run in order.runs}
        self._issued_loads: dict[str, IssuedLoad] = {}
        self._clock_offset: ClockOffset | None = None
        self._host_conditions: Mapping[str, str] = {}
        self._on_ended: Callable[[str], None] = lambda _: None

    @property
    def open_runs(self) -> tuple[str, ...]:
        """The runs that have not ended."""
        return tuple(self._open_runs)

    @property
    def is_held_back(self) -> bool:
        """Whether batches wait because there is no room for them."""
        return self._sink.is_full

    def has_ordered(self, fact: Batch | Outcome) -> bool:
        """Tell whether a `fact` is about a run of this order: a worker may say anything."""
        order = self.order
        own = (order.evaluation, order.attempt, order.agent)
        return fact.run in order.runs and (fact.evaluation, fact.attempt, fact.agent) == own

    async def publish_batch(self, fact: Batch) -> None:
        """Publish a batch of one of the order's runs, unless the run is ending."""
        if fact.run not in self._open_runs or fact.run in self._ending:
            return
        cause = self._cause(fact.run)
        name = derived_id(cause, fact.schema_name(), fact.sequence)
        counts = self._unsent[fact.run]
        try:
            if await self._sink.put_batch(fact, id=name, cause=cause):
                counts = self._sent[fact.run]
        finally:
            counts.update(batch_counts(fact))

    async def publish_ready(self, run: str) -> None:
        """Publish that a remote run's load may be issued."""
        order, cause = self.order, self._cause(run)
        fact = RunReady(
            evaluation=order.evaluation, run=run, attempt=order.attempt, agent=order.agent
        )
        await self._sink.put(fact, id=derived_id(cause, "ready"), cause=cause)

    def note_issued_load(self, run: str, load: IssuedLoad) -> None:
        """Keep what the issuer of a remote run reports of its load, for the run's outcome."""
        self._issued_loads[run] = load

    def note_clock(self, offset: ClockOffset | None) -> None:
        """Keep how the agent's clock differs from the cluster's, None if that was not measured."""
        self._clock_offset = offset

    def note_host_conditions(self, conditions: Mapping[str, str]) -> None:
        """Keep `conditions` of every run that its worker does not know, for outcomes."""
        self._host_conditions = conditions

    def when_ended(self, call: Callable[[str], None]) -> None:
        """Call `call` with each run that has ended."""
        self._on_ended = call

    def drop_refused(self, run: str) -> None:
        """Drop the batches of a run that there is no room for; its outcome counts them."""
        self._sink.drop_refused(self._cause(run))

    async def publish_outcome(self, outcome: Outcome) -> None:
        """Publish a run's outcome once its batches are stored or dropped; only the first counts."""
        run = outcome.run
        if run not in self._open_runs or run in self._ending:
            return
        self._ending.add(run)
        try:
            cause = self._cause(run)
            dropped = await self._sink.settle(cause)
            outcome = with_stored_counts(outcome, self._sent[run], dropped)
            load = self._issued_loads.get(run)
            if load is not None:
                outcome = load.added_to(outcome)
            conditions: dict[str, str | int] = {**self._host_conditions}
            if (offset := self._clock_offset) is not None:
                conditions["clock_offset_ns"] = offset.offset_ns
                conditions["clock_bound_ns"] = offset.bound_ns
            if conditions:
                changed = outcome.conditions.model_copy(update=conditions)
                outcome = outcome.model_copy(update={"conditions": changed})
            await self._sink.put(outcome, id=derived_id(cause, "outcome"), cause=cause)
            self._open_runs.pop(run, None)
        finally:
            self._ending.discard(run)
        self._on_ended(run)

    async def fail_open_runs(self, error: AgentError) -> None:
        """Publish that the runs which have not ended failed; their stored batches count."""
        for run in self.open_runs:
            await self.fail(run, error)

    async def fail(self, run: str, error: AgentError) -> None:
        """Publish that a run failed; its stored batches count."""
        await self.publish_outcome(self.failure(run, error))

    def failure(self, run: str, error: AgentError) -> RunFailed:
        """Return the failure of a run whose worker can't report it, with the batches received."""
        tally = Tally(**(self._sent[run] + self._unsent[run]))
        return failed_before_start(self.order, run, error).model_copy(update={"tally": tally})

    def _cause(self, run: str) -> str:
        return cause_of(self.order.evaluation, run, self.order.attempt)
