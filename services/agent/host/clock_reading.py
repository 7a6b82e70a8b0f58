"""Asks how far the cluster's clock is ahead of this machine's (I/O)."""

import logging

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.tracing.clock import epoch_offset_ns, now_ns
from mlscope.tracing.clock_offset import ClockOffset, Exchange, offset_of
from schemas.encoding.codec import decode_body
from schemas.encoding.errors import SchemaError
from schemas.live.clock import CLOCK_SUBJECT, ClockRead

_QUESTIONS = 8
_WITHIN_S = 0.5
_log = logging.getLogger(__name__)


async def read_cluster_clock(bus: Bus) -> ClockOffset | None:
    """Ask over `bus` several times and return the best offset; None when nobody answers.

    This machine's clock is the epoch at one instant and CLOCK_MONOTONIC from there: a step of the
    clock meanwhile changes nothing.
    """
    epoch_ns = epoch_offset_ns()
    exchanges = []
    for _ in range(_QUESTIONS):
        sent_ns = now_ns() + epoch_ns
        try:
            answer = await bus.ask(CLOCK_SUBJECT, b"{}", timeout_s=_WITHIN_S)
            heard_ns = now_ns() + epoch_ns
            read = decode_body(ClockRead, answer)
        except (BusError, SchemaError) as error:
            _log.debug("the cluster's clock was not read: %s", error)
            break
        exchanges.append(Exchange(sent_ns, read.received_ns, read.answered_ns, heard_ns))
    return offset_of(exchanges)
