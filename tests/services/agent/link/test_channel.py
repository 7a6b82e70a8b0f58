"""Messages over the socket between host and worker."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from schemas.encoding.errors import MalformedMessage
from services.agent.link.channel import WorkerChannel, framed
from services.agent.link.host_channel import HostChannel
from services.agent.link.messages import (
    AttemptKey,
    IssueQuery,
    OrderDone,
    QueryAnswered,
    StopRun,
)

KEY = AttemptKey("e1", "r0", 1)


async def test_messages_cross_both_ways() -> None:
    host_end, worker_end = socket.socketpair()
    host, worker = await HostChannel.over(host_end), WorkerChannel(worker_end)
    query = IssueQuery(KEY, 1, (0,), 5, payload=(b"\x00" * 100_000,))
    await host.send(query)
    assert await asyncio.to_thread(worker.receive) == query
    worker.send(OrderDone())
    assert await host.receive() == OrderDone()
    host.close()
    assert await asyncio.to_thread(worker.receive) is None
    worker_end.close()


async def test_a_dead_worker_is_the_end_of_messages() -> None:
    host_end, worker_end = socket.socketpair()
    host = await HostChannel.over(host_end)
    worker_end.close()
    assert await host.receive() is None
    await host.send(StopRun(KEY))
    host.close()


async def close_without_reading() -> None:
    host_end, worker_end = socket.socketpair()
    host = await HostChannel.over(host_end)
    await host.send(StopRun(KEY))
    worker_end.close()
    assert await host.receive() is None
    # The reset closes the host's transport, of which uvloop takes no more bytes.
    await host.send(StopRun(KEY))
    host.close()


@pytest.mark.parametrize("event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_worker_that_dies_over_unread_messages_raises_nothing(
    event_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(close_without_reading())


async def test_a_torn_message_is_an_error_on_both_sides() -> None:
    host_end, worker_end = socket.socketpair()
    host, worker = await HostChannel.over(host_end), WorkerChannel(worker_end)
    worker_end.sendall(framed(b"torn"))
    with pytest.raises(MalformedMessage):
        await host.receive()
    await host.send(StopRun(KEY))
    worker.send(OrderDone())
    assert await host.receive() == OrderDone()
    assert await asyncio.to_thread(worker.receive) == StopRun(KEY)
    host.close()
    worker_end.close()


async def test_a_host_takes_no_message_of_any_size() -> None:
    """A model that took over its worker could fill the agent's memory by a length of 4 GiB."""
    host_end, worker_end = socket.socketpair()
    host = await HostChannel.over(host_end)
    worker_end.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(MalformedMessage):
        async with asyncio.timeout(5):
            await host.receive()
    host.close()
    worker_end.close()


async def test_threads_do_not_mix_their_messages() -> None:
    host_end, worker_end = socket.socketpair()
    host, worker = await HostChannel.over(host_end), WorkerChannel(worker_end)

    def talk(number: int) -> None:
        for index in range(100):
            worker.send(QueryAnswered(f"r{number}", index, 0))

    with ThreadPoolExecutor(4) as threads:
        talks = [threads.submit(talk, number) for number in range(4)]
        messages = [await host.receive() for _ in range(400)]
    assert not any(each.exception() for each in talks)
    assert len({(m.run, m.query) for m in messages if isinstance(m, QueryAnswered)}) == 400
    host.close()
    worker_end.close()
