"""Facts that a fold fails on: counted, buried, and passed over, so that the service goes on."""

import logging

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import dead_letter
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from mlscope.bus.streams import stream_of
from schemas.encoding.codec import encode
from schemas.subjects import place_of

_log = logging.getLogger(__name__)


async def bury_unfolded(bus: Bus, unfolded: list[tuple[Recorded, Exception]]) -> None:
    """Count the facts in `unfolded` as unread, bury them with the error of each, and clear it.

    A fold is made anew at each start, and so is the letter, under the same id. A letter that
    cannot be published is only logged.
    """
    while unfolded:
        recorded, error = unfolded.pop(0)
        reason = f"cannot be folded: {type(error).__name__}: {error}"
        subject, sequence, place = recorded.subject, recorded.sequence, place_of(recorded.subject)
        _log.error("passed over %s at %d: %s", subject, sequence, reason, extra=place)
        bus.traffic.unread += 1
        letter, letter_id = dead_letter(
            bus.name,
            reason,
            subject=subject,
            body=encode(recorded.envelope),
            stream=stream_of(subject),
            sequence=sequence,
            deliveries=1,
        )
        try:
            await bus.publish(letter, id=letter_id)
        except BusError as failure:
            _log.error("no dead letter for %s: %s", subject, failure, extra=place)
