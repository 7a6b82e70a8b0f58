"""What is said of an order's runs: once each, with what is safe."""

import asyncio

from mlscope.tracing.batches import Attempt, trace_batch
from mlscope.tracing.clock_offset import ClockOffset
from schemas.batch import Batch, TraceCaptured
from schemas.message import derived_id
from schemas.run import RunFailed, RunReady, Tally
from services.agent.errors import Stopped, WorkerDied
from services.agent.host.publishing.dropped_batches import DroppedBatches
from services.agent.host.publishing.outcome_publisher import OutcomePublisher, cause_of
from services.agent.link.failures import failed_before_start
from services.agent.link.issued_load import IssuedLoad
from tests.services.agent.builders import Kept, a_run, an_order

ORDER = an_order(runs=(a_run("r0"), a_run("r1")))


def batch(sequence: int, run: str = "r0", rows: int = 2) -> Batch:
    row = (1, -1, 2, 0, 1, 1, 1, 0, 0, b"")
    return trace_batch(Attempt("e1", run, 1, "a1"), sequence, [row] * rows, {"query": 0})


class Short(Kept):
    """A sink that stores two batches of each cause and gives up the others."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()
        self.dropped_causes: list[str] = []
        self._put = 0

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Keep two."""
        self._put += 1
        return self._put <= 2 and await super().put_batch(fact, id=id, cause=cause)

    async def settle(self, cause: str) -> DroppedBatches:  # noqa: ARG002
        """Wait until released; the second batch was given up after all."""
        await self.released.wait()
        return DroppedBatches({"trace_batches": 1, "spans": 2}, "the stream is full")

    def drop_refused(self, cause: str) -> None:
        """Note the cause."""
        self.dropped_causes.append(cause)


async def test_ids_derive_from_the_attempt_and_the_batch() -> None:
    kept = Kept()
    publisher = OutcomePublisher(ORDER, kept)
    for sequence in (0, 1):
        await publisher.publish_batch(batch(sequence))
    cause = cause_of("e1", "r0", 1)
    name = TraceCaptured.schema_name()
    assert kept.ids == [f"{cause}:{derived_id(cause, name, sequence)}" for sequence in (0, 1)]
    assert cause != cause_of("e1", "r0", 2)


async def test_a_run_of_another_order_is_not_spoken_of() -> None:
    kept = Kept()
    await OutcomePublisher(ORDER, kept).publish_batch(batch(0, run="stranger"))
    assert kept.facts == []


async def test_a_run_ends_once_and_is_then_not_left() -> None:
    kept, ended = Kept(), list[str]()
    publisher = OutcomePublisher(ORDER, kept)
    publisher.when_ended(ended.append)
    await publisher.fail("r0", Stopped("cancelled"))
    await publisher.fail("r0", WorkerDied("exited with 3"))
    await publisher.publish_batch(batch(0))
    assert (publisher.open_runs, ended) == (("r1",), ["r0"])
    (fact,) = kept.facts
    assert isinstance(fact, RunFailed)
    assert (fact.error, fact.message) == ("stopped", "cancelled")


async def test_an_outcome_says_how_the_clocks_differ() -> None:
    kept = Kept()
    publisher = OutcomePublisher(ORDER, kept)
    await publisher.fail("r0", Stopped())
    publisher.note_clock(ClockOffset(-5, 2))
    await publisher.fail("r1", Stopped())
    told = [kept.failed(run).conditions for run in ("r0", "r1")]
    assert [(one.clock_offset_ns, one.clock_bound_ns) for one in told] == [(None, None), (-5, 2)]


async def test_burying_ends_whatever_is_left_with_what_was_published() -> None:
    kept = Kept()
    publisher = OutcomePublisher(ORDER, kept)
    await publisher.publish_batch(batch(0, "r1", rows=3))
    await publisher.fail("r0", Stopped())
    await publisher.fail_open_runs(WorkerDied("exited with 3"))
    assert publisher.open_runs == ()
    assert kept.failed("r1").tally == Tally(trace_batches=1, spans=3)
    assert kept.failed("r0").tally == Tally()


async def test_an_end_waits_for_its_batches_and_counts_those_given_up() -> None:
    short = Short()
    publisher = OutcomePublisher(ORDER, short)
    for sequence in range(4):
        await publisher.publish_batch(batch(sequence))
    ending = asyncio.create_task(publisher.fail("r0", Stopped("cancelled")))
    await asyncio.sleep(0)
    await publisher.publish_batch(batch(4))
    assert (short.of(RunFailed), publisher.open_runs) == ([], ("r0", "r1"))
    publisher.drop_refused("r0")
    short.released.set()
    await ending
    assert short.dropped_causes == [cause_of("e1", "r0", 1)]
    said = short.failed("r0")
    assert said.tally == Tally(trace_batches=1, spans=2, dropped_batches=3)
    assert said.message == "cancelled; 3 batches were dropped: the stream is full"


async def test_an_end_that_was_cut_off_can_be_said_again() -> None:
    short = Short()
    publisher = OutcomePublisher(ORDER, short)
    ending = asyncio.create_task(publisher.fail("r0", Stopped("cut off")))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    short.released.set()
    await publisher.fail("r0", Stopped("again"))
    assert short.failed("r0").message.startswith("again")


async def test_what_the_issuer_says_is_in_the_end() -> None:
    kept = Kept()
    publisher = OutcomePublisher(ORDER, kept)
    publisher.note_issued_load(
        "r0", IssuedLoad(Tally(query_batches=2, queries=9, failed_queries=1))
    )
    await publisher.publish_outcome(failed_before_start(ORDER, "r0", Stopped()))
    assert (kept.failed("r0").tally.queries, kept.failed("r0").tally.query_batches) == (9, 2)


async def test_readiness_names_the_attempt() -> None:
    kept = Kept()
    await OutcomePublisher(ORDER, kept).publish_ready("r1")
    assert kept.of(RunReady) == [RunReady(evaluation="e1", run="r1", attempt=1, agent="a1")]
