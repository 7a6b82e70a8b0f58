"""The answers to a service's health check, over a connection of its own (I/O)."""

import asyncio
import json
from contextlib import AsyncExitStack

from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.inboxes import is_inbox
from mlscope.bus.nats.connection import Connection, Msg

_CONNECTS_WITHIN_S = 30.0


async def answer_health_checks(main: Connection, instance: ServiceInstance) -> Connection:
    """Answer the health check of an `instance` while `main`, its connection, has a server.

    On `main` the question waits behind a flood of messages: a busy service would look like a deaf
    one. Return the connection of the answers, which the caller closes. Raises Unreachable and
    NotPermitted, and leaves no connection open then.

    This connection sends nothing by itself, so of a server that is frozen it would know only after
    more than 30 s. It leaves one that `main` has left.
    """
    connection = Connection(main.settings, main.name, inbox=main.inbox)
    await connection.open(_CONNECTS_WITHIN_S)

    def received(message: Msg) -> None:
        if is_inbox(message.reply) and main.availability.is_up:
            answer = json.dumps(instance.answer_to(message.subject))
            connection.send_soon(message.reply, answer.encode())

    leaving: set[asyncio.Task[None]] = set()

    def follow() -> None:
        url = connection.client.connected_url
        if main.availability.is_up and url and url != main.client.connected_url:
            task = asyncio.get_running_loop().create_task(connection.leave_server())
            leaving.add(task)
            task.add_done_callback(leaving.discard)

    async with AsyncExitStack() as undo:
        undo.push_async_callback(connection.close)
        main.availability.on_reconnect(follow)
        undo.callback(main.availability.off_reconnect, follow)
        await connection.listen(instance.health_subject, received)
        undo.pop_all()
    return connection
