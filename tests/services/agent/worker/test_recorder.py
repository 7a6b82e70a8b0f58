"""What a run leaves behind, in batches."""

from mlscope.tracing.batches import ANSWERED, FAILED, FLUSH_NS, Attempt, QueryRow, columns_of
from mlscope.tracing.spans import Row
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from services.agent.link.batches import unpack_batch
from services.agent.worker.recorder import RunRecorder

ATTEMPT = Attempt("e1", "r0", 1, "a1")


class Room:
    """Takes batches while there is room."""

    def __init__(self, most: int = 1000) -> None:
        self.taken: list[Batch] = []
        self.most = most

    def __call__(self, body: bytes) -> bool:
        """Take a batch."""
        if len(self.taken) >= self.most:
            return False
        self.taken.append(unpack_batch(body))
        return True


def span(number: int, attributes: bytes = b"") -> Row:
    return (number, -1, 2, 0, number, 1, 1, 0, 0, attributes)


def query(number: int, status: int = ANSWERED) -> QueryRow:
    return (number, 0, 1, -1, 1, 1, 2, 1, status, "torn" if status else "")


def test_a_flush_hands_over_every_kind() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room)
    recorder.spans.name_id("query")
    recorder.spans.append(span(1))
    recorder.query(query(0))
    recorder.query(query(1, FAILED))
    recorder.output((0, 3, b"[]"))
    recorder.flush()
    assert [type(fact) for fact in room.taken] == [TraceCaptured, QueriesAnswered, OutputsPredicted]
    tally = recorder.tally()
    assert (tally.spans, tally.queries, tally.outputs, tally.failed_queries) == (1, 2, 1, 1)
    assert (tally.trace_batches, tally.query_batches, tally.output_batches) == (1, 1, 1)


def test_a_batch_is_no_longer_than_500_rows_or_256_kib() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room)
    recorder.spans.name_id("conv")
    for number in range(1200):
        recorder.spans.append(span(number, b"x" * 2000 if number >= 1000 else b""))
    recorder.flush()
    assert [fact.count for fact in room.taken][:3] == [500, 500, 129]
    assert [fact.sequence for fact in room.taken] == list(range(len(room.taken)))
    ids = [each for fact in room.taken for each in columns_of(fact)["span"].tolist()]
    assert ids == list(range(1200))


def test_rows_wait_for_100_ms() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room)
    recorder.query(query(0))
    recorder.flush_due(1_000)
    recorder.flush_due(1_000 + FLUSH_NS - 1)
    assert room.taken == []
    recorder.flush_due(1_000 + FLUSH_NS)
    assert len(room.taken) == 1


def test_rows_wait_for_the_end_of_the_block_when_held() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room, waits_for_flush=True)
    for number in range(600):
        recorder.query(query(number))
        recorder.flush_due(number * FLUSH_NS)
    assert room.taken == []
    recorder.flush()
    assert [fact.count for fact in room.taken] == [500, 100]


def test_a_dropped_batch_leaves_no_gap_and_is_counted() -> None:
    room = Room(most=1)
    recorder = RunRecorder(ATTEMPT, room)
    for number in range(3):
        recorder.query(query(number))
        recorder.flush()
        room.most = 1 if number == 0 else 2
    assert [fact.sequence for fact in room.taken] == [0, 1]
    tally = recorder.tally()
    assert (tally.query_batches, tally.queries, tally.dropped_batches) == (2, 2, 1)


def test_long_predictions_are_spread_over_batches() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room)
    for number in range(6):
        recorder.output((number, number, b"x" * 100_000))
    recorder.flush()
    assert [fact.count for fact in room.taken] == [3, 3]


def test_linked_spans_go_in_batches_of_their_own_and_count_as_spans() -> None:
    room = Room()
    recorder = RunRecorder(ATTEMPT, room)
    recorder.spans.name_id("gemm")
    recorder.spans.append(span(1))
    recorder.spans.link((*span(2), 2, 33))
    recorder.flush()
    plain, linked = room.taken
    assert ("kind" in columns_of(plain), columns_of(linked)["kind"].tolist()) == (False, [2])
    assert columns_of(linked)["correlation"].tolist() == [33]
    assert (recorder.tally().spans, recorder.tally().trace_batches) == (2, 2)
