"""Requests on a memory server: one answer, or those of everybody."""

import asyncio

from mlscope.bus.errors import NoAnswer
from mlscope.testing.memory_bus.server import MemoryServer


async def ask(
    server: MemoryServer,
    name: str,
    subject: str,
    body: bytes,
    timeout_s: float,
    traceparent: str = "",
) -> bytes:
    """Send `body` to `subject` of `server` as the service `name`; return the answer.

    `traceparent` goes along. Raises NoAnswer where nobody listens, and after `timeout_s`.
    """
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    reply = server.new_inbox(name)

    def replied(_: str, body: bytes, __: str) -> None:
        if not answer.done():
            answer.set_result(body)

    listener = server.listen(reply, replied)
    server.traceparents[reply] = traceparent
    try:
        if not server.send(subject, body, reply):
            raise NoAnswer(subject)
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError as error:
        raise NoAnswer(subject) from error
    finally:
        del server.traceparents[reply]
        server.leave(listener)


async def ask_all(server: MemoryServer, name: str, subject: str, within_s: float) -> list[bytes]:
    """Return the answers of everybody on `subject` of `server` to the service `name`, in time.

    Commands are waited for, for `within_s`.
    """
    answers: list[bytes] = []
    reply = server.new_inbox(name)
    listener = server.listen(reply, lambda _, body, __: answers.append(body))
    if server.send(subject, b"", reply):
        # Discovery is answered within `send`, commands soon.
        await asyncio.sleep(0 if answers else within_s)
    server.leave(listener)
    return answers
