"""Messages that a service had in hand when it died: handled alone, and buried if it dies again.

No exception reports a message that ends the process (a crash of a library, no memory left). The
server delivers it again, to a process that has not had it before, although others have: it is a
suspect. A suspect is handled while this process handles nothing else, and a key in the bucket
`suspects` says so meanwhile. A message with such a key was the only one in hand when a process
died; the key counts how often. One such death may have come from outside (a kill, a machine that
lost its power), so the message is handled once more. After two it is a dead letter.

A message that another instance gave back, or left behind when it was stopped, is a suspect too.
It is then handled by itself, which is slower and otherwise harmless.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.streams import SUSPECTS

_log = logging.getLogger(__name__)
_MOST_REMEMBERED = 8192
_MOST_DEATHS = 2
_REASON = "the service ended twice while it had only this message in hand"

MessagePosition = tuple[str, int]
"""The name of a durable, and a message's sequence in its stream."""


class MessagesInHand:
    """What one process has in hand, of all durables that it pulls from."""

    def __init__(self, bus: Bus) -> None:
        """Note suspects in a bucket of `bus`."""
        self._bus = bus
        #: the deliveries that came here last, of messages that have not been settled for good
        self._tries: OrderedDict[MessagePosition, int] = OrderedDict()
        #: until when (the event loop's clock) the server leaves a message that is in hand here
        self._until_s: dict[MessagePosition, float] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._suspect: MessagePosition | None = None

    def receive(self, position: MessagePosition, tries: int) -> bool:
        """Note the delivery number `tries` of a message; tell whether the message is a suspect."""
        before = self._tries.pop(position, 0)
        self._tries[position] = tries
        if len(self._tries) > _MOST_REMEMBERED:
            self._tries.popitem(last=False)
        return tries > 1 and before != tries - 1

    async def take(self, positions: Iterable[MessagePosition], for_s: float) -> None:
        """Take messages in hand for `for_s`, once no suspect is."""
        async with self._turn:
            for position in positions:
                self.hold(position, for_s)

    def hold(self, position: MessagePosition, for_s: float) -> None:
        """Have a message in hand for `for_s` from now."""
        self._until_s[position] = asyncio.get_running_loop().time() + for_s

    async def settle(self, position: MessagePosition, *, is_over: bool) -> None:
        """Release a message; one that `is_over` is not delivered again."""
        if is_over:
            self._tries.pop(position, None)
        self._release(position)
        if position == self._suspect:
            await self.clear_suspect()

    @asynccontextmanager
    async def handling_alone(self, position: MessagePosition) -> AsyncIterator[str]:
        """Wait until nothing is in hand; within the context only what it takes itself is.

        The context gets the reason to bury the suspect at `position`, '' if there is none.
        """
        async with self._turn:
            self._release(position)
            await self._nothing_in_hand()
            reason = await self._note(position)
            try:
                yield reason
                await self._nothing_in_hand()
            finally:
                self._release(position)
                await self.clear_suspect()

    async def clear_suspect(self) -> None:
        """Remove the key that says which suspect is in hand, if one is."""
        position, self._suspect = self._suspect, None
        if position is None:
            return
        try:
            await self._bus.delete(SUSPECTS, _key_of(position))
        except BusError as error:
            _log.warning("the suspect %s stays noted: %s", _key_of(position), error)

    async def _note(self, position: MessagePosition) -> str:
        """Note a suspect; return why it must be buried if it is noted already."""
        try:
            entry = await self._bus.get(SUSPECTS, _key_of(position))
            deaths = 0
            if entry is not None:
                count_text = entry.value or b""  # that of an older release has no number
                deaths = (int(count_text) if count_text.isdigit() else 0) + 1
            if deaths < _MOST_DEATHS:
                await self._bus.put(SUSPECTS, _key_of(position), b"%d" % deaths)
            self._suspect = position
        except BusError as error:
            _log.warning("the suspect %s is not noted: %s", _key_of(position), error)
            return ""
        return "" if deaths < _MOST_DEATHS else _REASON

    def _release(self, position: MessagePosition) -> None:
        self._until_s.pop(position, None)
        self._changed.set()

    async def _nothing_in_hand(self) -> None:
        """Return once every message in hand is settled, or is the server's to deliver again."""
        now_s = asyncio.get_running_loop().time
        while self._until_s:
            position, until_s = min(self._until_s.items(), key=lambda item: item[1])
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.0, until_s - now_s())):
                    await self._changed.wait()
            except TimeoutError:
                if self._until_s.get(position, now_s()) <= now_s():
                    self._release(position)


def _key_of(position: MessagePosition) -> str:
    return f"{position[0]}.{position[1]}"
