"""Workers by session: which one is lent, kept, closed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.agent.host.sessions import IDLE_S, MOST_OPEN, SessionKey, Sessions, session_key
from services.agent.link.bounds import Bounds
from tests.services.agent.builders import an_order, limits

pytestmark = pytest.mark.usefixtures("forked_workers")
A, B, C = ("e1", "s0"), ("e1", "s1"), ("e2", "s0")


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        """Return the time; the next is a little later."""
        self.now_ns += 1
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
async def sessions(tmp_path: Path, clock: Clock) -> AsyncIterator[Sessions]:
    """Lend sessions and close them."""
    made = Sessions(limits(tmp_path), clock)
    yield made
    await made.close_all()
    assert len(made) == 0


async def is_kept(sessions: Sessions, key: SessionKey, pid: int) -> bool:
    return (await sessions.worker(key)).pid == pid


def test_a_session_is_named_by_its_evaluation() -> None:
    assert session_key(an_order(session="s7")) == ("e1", "s7")


async def test_a_session_keeps_its_worker(sessions: Sessions) -> None:
    first, other = await sessions.worker(A), await sessions.worker(B)
    assert first.pid != other.pid
    assert await is_kept(sessions, A, first.pid)
    assert len(sessions) == 2


async def test_a_dead_worker_is_replaced(sessions: Sessions) -> None:
    first = await sessions.worker(A)
    first.kill()
    await first.death()
    assert not await is_kept(sessions, A, first.pid)
    assert len(sessions) == 1


async def test_the_least_recently_used_makes_room(sessions: Sessions) -> None:
    first, second = await sessions.worker(A), await sessions.worker(B)
    await sessions.worker(A)
    await sessions.worker(C)
    assert len(sessions) == MOST_OPEN
    assert (first.is_alive, second.is_alive) == (True, False)


async def test_a_session_at_work_is_closed_when_it_rests(sessions: Sessions) -> None:
    worker = await sessions.worker(A)
    sessions.working = A
    assert await sessions.close_when_idle(A) == "after the current order"
    assert worker.is_alive
    await sessions.end_order()
    assert (worker.is_alive, len(sessions)) == (False, 0)
    assert await sessions.close_when_idle(A) == "not open"


async def test_rest_closes_nothing_that_nobody_asked_to_close(sessions: Sessions) -> None:
    worker = await sessions.worker(A)
    sessions.working = A
    await sessions.end_order()
    assert worker.is_alive
    assert await sessions.close_when_idle(A) == ""


async def test_who_is_idle_for_long_is_closed_unless_at_work(
    sessions: Sessions, clock: Clock
) -> None:
    working, idle = await sessions.worker(A), await sessions.worker(B)
    sessions.working = A
    await sessions.close_idle()
    assert (working.is_alive, idle.is_alive) == (True, True)
    clock.now_ns += int(IDLE_S * 1e9)
    await sessions.close_idle()
    assert (working.is_alive, idle.is_alive) == (True, False)


async def test_a_session_that_is_closed_meanwhile_is_not_closed_again(
    sessions: Sessions, clock: Clock
) -> None:
    await sessions.worker(A)
    ended = await sessions.worker(B)
    ended.kill()
    await ended.death()
    clock.now_ns += int(IDLE_S * 1e9) + 10
    # The first takes a while, and the second is gone before its turn.
    await asyncio.gather(sessions.close_idle(), sessions.close(B))
    assert len(sessions) == 0


async def test_who_uses_too_much_without_an_order_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions(limits(tmp_path, bounds=Bounds(memory_bytes=1)))
    working, idle = await sessions.worker(A), await sessions.worker(B)
    sessions.working = A
    await sessions.kill_excessive()
    await idle.death()
    assert (working.is_alive, idle.is_alive) == (True, False)
    causes = [record.__dict__["cause"] for record in caplog.records if "cause" in record.__dict__]
    assert ["it may use 1" in cause for cause in causes] == [True]
    await sessions.close_idle()
    assert len(sessions) == 1, "what a dead worker wrote is removed"
    await sessions.close_all()
