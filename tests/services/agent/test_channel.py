"""Words between agent and worker."""

import asyncio
import socket
import threading

from services.agent.channel import AgentChannel, Channel


async def test_words_cross_both_ways() -> None:
    ours, theirs = socket.socketpair()
    agent, worker = await AgentChannel.over(ours), Channel(theirs)
    await agent.send({"kind": "order", "order": b"\x00" * 100_000})
    heard = await asyncio.to_thread(worker.receive)
    assert heard == {"kind": "order", "order": b"\x00" * 100_000}
    worker.send({"kind": "idle"})
    assert await agent.receive() == {"kind": "idle"}
    agent.close()
    assert await asyncio.to_thread(worker.receive) is None
    theirs.close()


async def test_a_dead_worker_is_the_end_of_words() -> None:
    ours, theirs = socket.socketpair()
    agent = await AgentChannel.over(ours)
    theirs.close()
    assert await agent.receive() is None
    await agent.send({"kind": "stop"})
    agent.close()


async def test_threads_do_not_mix_their_words() -> None:
    ours, theirs = socket.socketpair()
    agent, worker = await AgentChannel.over(ours), Channel(theirs)

    def talk(number: int) -> None:
        for index in range(100):
            worker.send({"n": number, "i": index})

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    heard = [await agent.receive() for _ in range(400)]
    assert len({(words["n"], words["i"]) for words in heard if words}) == 400
    agent.close()
    theirs.close()
    for thread in threads:
        thread.join()
