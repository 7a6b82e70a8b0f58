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

Place = tuple[str, int]
"""The name of a durable, and a message's sequence in its stream."""


class Hands:
    """What one process has in hand, of all durables that it pulls from."""

    def __init__(self, bus: Bus) -> None:
        """Note suspects in a bucket of `bus`."""
        self._bus = bus
        #: the deliveries that came here last, of messages that have not been settled for good
        self._tries: OrderedDict[Place, int] = OrderedDict()
        #: until when (the event loop's clock) the server leaves a message that is in hand here
        self._until_s: dict[Place, float] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._suspect: Place | None = None

    def receive(self, place: Place, tries: int) -> bool:
        """Note the delivery number `tries` of a message; tell whether the message is a suspect."""
        before = self._tries.pop(place, 0)
        self._tries[place] = tries
        if len(self._tries) > _MOST_REMEMBERED:
            self._tries.popitem(last=False)
        return tries > 1 and before != tries - 1

    async def take(self, places: Iterable[Place], for_s: float) -> None:
        """Take messages in hand for `for_s`, once no suspect is."""
        async with self._turn:
            for place in places:
                self.hold(place, for_s)

    def hold(self, place: Place, for_s: float) -> None:
        """Have a message in hand for `for_s` from now."""
        self._until_s[place] = asyncio.get_running_loop().time() + for_s

    async def settle(self, place: Place, *, is_over: bool) -> None:
        """Put a message down; one that `is_over` is not delivered again."""
        if is_over:
            self._tries.pop(place, None)
        self._put_down(place)
        if place == self._suspect:
            await self.clear_suspect()

    @asynccontextmanager
    async def alone(self, place: Place) -> AsyncIterator[str]:
        """Wait until nothing is in hand, and keep it so, but for what the context takes itself.

        The context gets the reason to bury the suspect at `place`, '' if there is none.
        """
        async with self._turn:
            self._put_down(place)
            await self._nothing_in_hand()
            reason = await self._note(place)
            try:
                yield reason
                await self._nothing_in_hand()
            finally:
                self._put_down(place)
                await self.clear_suspect()

    async def clear_suspect(self) -> None:
        """Remove the key that says which suspect is in hand, if one is."""
        place, self._suspect = self._suspect, None
        if place is None:
            return
        try:
            await self._bus.delete(SUSPECTS, _key_of(place))
        except BusError as error:
            _log.warning("the suspect %s stays noted: %s", _key_of(place), error)

    async def _note(self, place: Place) -> str:
        """Note a suspect; return why it must be buried if it is noted already."""
        try:
            entry = await self._bus.get(SUSPECTS, _key_of(place))
            deaths = 0
            if entry is not None:
                noted = entry.value or b""  # that of an older release has no number
                deaths = (int(noted) if noted.isdigit() else 0) + 1
            if deaths < _MOST_DEATHS:
                await self._bus.put(SUSPECTS, _key_of(place), b"%d" % deaths)
            self._suspect = place
        except BusError as error:
            _log.warning("the suspect %s is not noted: %s", _key_of(place), error)
            return ""
        return "" if deaths < _MOST_DEATHS else _REASON

    def _put_down(self, place: Place) -> None:
        self._until_s.pop(place, None)
        self._changed.set()

    async def _nothing_in_hand(self) -> None:
        """Return once every message in hand is settled, or is the server's to deliver again."""
        now_s = asyncio.get_running_loop().time
        while self._until_s:
            place, until_s = min(self._until_s.items(), key=lambda item: item[1])
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.0, until_s - now_s())):
                    await self._changed.wait()
            except TimeoutError:
                if self._until_s.get(place, now_s()) <= now_s():
                    self._put_down(place)


def _key_of(place: Place) -> str:
    return f"{place[0]}.{place[1]}"
