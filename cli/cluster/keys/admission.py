"""The process that admits machines with an invitation; `mlscope up --listen` runs it.

A machine that joins makes a key of its own and sends the public half with the key of its
invitation. The broker lets that key ask for one name alone, so the subject says who asks.
"""

import asyncio
import logging
import os
import signal
from functools import partial

from cli.cluster.keys.members import Members
from mlscope.bus.access.permissions import OPERATOR
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from mlscope.health import Announced
from mlscope.logs import set_up_logging
from mlscope.settings import Settings
from schemas.agent import AgentJoined
from schemas.encoding.codec import encode_body
from schemas.message import VERSION, derived_id
from schemas.request import Refused
from schemas.subjects import join_subject

_log = logging.getLogger(__name__)


async def admit(members: Members, bus: Bus, command: ReceivedCommand) -> bytes:
    """Answer a machine that wants to join the `members`; `command` holds its public key.

    It is recorded over `bus` first: no machine joins without a record. Raises BusError.
    """
    agent = command.subject.rsplit(".", 1)[-1]
    public = command.body.decode("ascii", "replace")
    if invitation := members.invitation_of(agent, public):
        # Several may use one invitation at once, and a machine asks again: they have one record.
        await bus.publish(AgentJoined(agent=agent), id=derived_id(invitation, "joined"))
    if not members.admit(agent, public):
        message = f"the invitation of {agent} was used or has expired: invite it again"
        return encode_body(Refused(error="conflict", message=message), json_text=True)
    _log.info("a machine joined", extra={"agent": agent})
    members.notify()
    return b'{"accepted": true}'


async def serve(settings: Settings) -> None:
    """Answer machines that want to join, until SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(settings, OPERATOR) as bus:
        members = Members(settings.data_folder)
        await bus.answer(join_subject("*"), partial(admit, members, bus), queue="admission")
        facts = ServiceInfo(OPERATOR, f"{VERSION}.0.0", "admits machines that were invited", {})
        announced = await bus.announce(facts, dict)
        if settings.ready_file is not None:
            Announced(announced.instance, os.getpid()).write(settings.ready_file)
        await stop.wait()


if __name__ == "__main__":
    environ_settings = Settings.read(os.environ)
    set_up_logging("admission", environ_settings.log_level, form=environ_settings.log_format)
    asyncio.run(serve(environ_settings))
