"""The memory server on a clock of the test's own: every wait is exact."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.errors import NotProvisioned
from mlscope.bus.streams import matches
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.subjects import decisions_of
from tests.contracts.facts import E, a_fact
from tests.mlscope.testing.memory_bus.clock import Clock

TOKENS = st.sampled_from(["a", "b", "*", ">"])


@pytest.fixture
def server(clock: Clock) -> MemoryServer:
    """Return a server on that clock."""
    return MemoryServer(clock=clock)


async def _move(server: MemoryServer, clock: Clock, seconds: float) -> None:
    clock.now_s += seconds
    server.wake()
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_repeat_is_dropped_inside_the_window_only(
    server: MemoryServer, clock: Clock
) -> None:
    async with connect(server, "scheduler") as bus:
        first = await bus.publish(a_fact(), id="a")
        clock.now_s += 119.0
        assert await bus.publish(a_fact(), id="a") == first
        clock.now_s += 2.0
        assert await bus.publish(a_fact(), id="a") == first + 1


async def test_an_unacknowledged_fact_comes_again_after_the_ack_wait(
    server: MemoryServer, clock: Clock
) -> None:
    async with connect(server, "scheduler") as bus:
        await bus.publish(a_fact(), id="a")
        coming = bus.deliveries("scheduler")
        await anext(coming)
        waiting = asyncio.ensure_future(anext(coming))
        await _move(server, clock, 29.9)
        assert not waiting.done()
        await _move(server, clock, 0.2)
        assert (await waiting)[0].tries == 2


async def test_backoff_grows_with_the_tries(server: MemoryServer, clock: Clock) -> None:
    async with connect(server, "scheduler") as bus:
        await bus.publish(a_fact(), id="a")
        coming = bus.deliveries("scheduler")
        (delivery,) = await anext(coming)
        for wait_s in (0.2, 1.0, 5.0, 15.0, 15.0):
            await delivery.retry()
            waiting = asyncio.ensure_future(anext(coming))
            await _move(server, clock, wait_s - 0.01)
            assert not waiting.done()
            await _move(server, clock, 0.02)
            (delivery,) = await waiting


async def test_a_lease_runs_out_to_the_second(server: MemoryServer, clock: Clock) -> None:
    async with connect(server, "registry") as bus:
        await bus.put("leases", "agent-1", b"alive")
        watching = bus.watch("leases")
        assert await anext(watching)
        assert await anext(watching) is None
        waiting = asyncio.ensure_future(anext(watching))
        await _move(server, clock, 14.9)
        assert not waiting.done()
        await _move(server, clock, 0.2)
        gone = await waiting
        assert gone is not None
        assert gone.value is None


async def test_at_most_so_many_facts_are_out(server: MemoryServer) -> None:
    async with connect(server, "scheduler") as bus:
        for n in range(1010):
            await bus.publish(a_fact(), id=str(n))
        coming = bus.deliveries("scheduler", batch=2000)
        held = await anext(coming)
        assert len(held) == 1000
        await held[0].ack()
        assert len(await anext(coming)) == 1


async def test_a_server_without_a_stream_says_so() -> None:
    async with connect(MemoryServer(streams=(), durables=(), buckets=()), "agent") as bus:
        with pytest.raises(NotProvisioned):
            await bus.publish(a_fact(), id="a")
        with pytest.raises(NotProvisioned):
            await bus.get("leases", "agent-1")
        with pytest.raises(NotProvisioned):
            await bus.read(decisions_of(E))


@given(st.lists(TOKENS, min_size=1, max_size=4), st.lists(TOKENS, min_size=1, max_size=4))
def test_filters_take_what_nats_says(wanted: list[str], tokens: list[str]) -> None:
    subject = [token if token in "ab" else "c" for token in tokens]
    filter_subject = [token for token in wanted if token != ">"] + [">"] * (wanted[-1] == ">")
    assert matches(".".join(filter_subject), ".".join(subject)) == _takes(filter_subject, subject)


def _takes(wanted: list[str], tokens: list[str]) -> bool:
    """Say the rule once more, by recursion."""
    if wanted == [">"]:
        return bool(tokens)
    if not wanted or not tokens:
        return not wanted and not tokens
    return wanted[0] in ("*", tokens[0]) and _takes(wanted[1:], tokens[1:])
