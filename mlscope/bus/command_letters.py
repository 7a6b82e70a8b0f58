"""Dead letters of commands: what somebody sent, expecting no answer, and a service refused."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import dead_letter
from mlscope.bus.records import ReceivedCommand
from schemas.subjects import asker_of

_log = logging.getLogger(__name__)

LETTERS_AN_HOUR = 30
"""Letters of one sender that a service records: anybody may send many commands, and the stream
forgets its oldest letter when it is full, which may be that of a fact that was lost."""
LETTER_BYTES = 8 * 1024
"""How much of a command's body its letter has."""
_HOUR_S = 3600.0

_WITHOUT_LETTERS = frozenset({"gateway", "operator"})
"""The names of keys that answer commands and may not write to the log, so no dead letters either.

What they refuse would have changed nothing that is kept.
"""


class CommandLetters:
    """Records refused commands over one bus, a few of each sender."""

    def __init__(self, bus: Bus, now_s: Callable[[], float] = time.monotonic) -> None:
        """Publish over `bus`; `now_s` is a clock that never steps (seconds)."""
        self._bus = bus
        self._now_s = now_s
        self._recorded_s: dict[str, deque[float]] = {}

    async def bury(self, command: ReceivedCommand, reason: str) -> None:
        """Publish the dead letter of a `command`, which its service refused for `reason`.

        A letter too many, and one of a service whose key may write none, is logged at the level
        DEBUG: anyone may send many.
        """
        if self._bus.name in _WITHOUT_LETTERS or not self._has_room(sender_of(command)):
            _log.debug("refused %s, which expects no answer: %s", command.subject, reason)
            return
        command = replace(command, body=command.body[:LETTER_BYTES])
        letter, letter_id = dead_letter(
            self._bus.name, reason, subject=command.subject, body=command.body
        )
        await self._bus.publish(letter, id=letter_id)

    def _has_room(self, sender: str) -> bool:
        """Count a letter of a `sender`, unless there were enough within the last hour."""
        recorded_s = self._recorded_s.setdefault(sender, deque(maxlen=LETTERS_AN_HOUR))
        now_s = self._now_s()
        if len(recorded_s) == LETTERS_AN_HOUR and now_s < recorded_s[0] + _HOUR_S:
            return False
        recorded_s.append(now_s)
        return True


def sender_of(command: ReceivedCommand) -> str:
    """Return the person who sent a command; '' for the cluster's user, services, and nobody."""
    try:
        return asker_of(command.subject).name
    except ValueError:
        return ""
