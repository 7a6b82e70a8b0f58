"""When batches are taken from a worker that measures."""

from services.agent.host.batch_taking import BatchTaking


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.ns = 5_000_000_000

    def __call__(self) -> int:
        """Read it."""
        return self.ns


def test_batches_are_taken_once_an_interval() -> None:
    clock = Clock()
    taking = BatchTaking(1.0, clock)
    due_ms = []
    for _ in range(50):
        clock.ns += 50_000_000
        if taking.is_due(0.1, has_ended=False):
            due_ms.append((clock.ns - 5_000_000_000) // 1_000_000)
    assert due_ms == [1000, 2000]


def test_batches_are_taken_at_once_where_they_fill_the_ring_or_a_run_has_ended() -> None:
    taking = BatchTaking(60.0, Clock())
    assert not taking.is_due(0.49, has_ended=False)
    assert taking.is_due(0.5, has_ended=False)
    assert taking.is_due(0.0, has_ended=True)


def test_without_an_interval_they_are_taken_as_they_come() -> None:
    taking = BatchTaking(0.0, Clock())
    assert all(taking.is_due(0.0, has_ended=False) for _ in range(3))
