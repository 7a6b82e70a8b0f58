"""Keeps the bucket `catalog` equal to the fold (I/O). Several registries may do so at once.

Where the bucket differs though the own fold did not change, another registry wrote, whose fold may
be further: its word stands for a while. An agent that is deleted and written again would have its
runs broken off in between.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from mlscope.bus.bus import Bus, Entry
from mlscope.bus.errors import Conflict

CATALOG = "catalog"
_log = logging.getLogger(__name__)


class CatalogBucket:
    """What the bucket holds, as its watch tells, and the writes that mend it."""

    def __init__(self, bus: Bus, patience_s: float) -> None:
        """Use `bus`; `watch` must run meanwhile. What another wrote is overruled after so long."""
        self._bus = bus
        self._patience_s = patience_s
        #: what the own fold wanted and the bucket has shown since
        self._shown: dict[str, str] = {}
        #: since when (CLOCK_MONOTONIC) what another wrote stands, by key and revision, 0: deleted
        self._foreign: dict[tuple[str, int], float] = {}
        self._held: dict[str, Entry] = {}
        self._lock = asyncio.Lock()
        self.known = asyncio.Event()

    @property
    def seen(self) -> frozenset[str]:
        """Return the keys that are there, as far as the watch has told."""
        return frozenset(self._held)

    async def watch(self) -> None:
        """Take in what the bucket holds, for ever; `known` is set once all of it is seen."""
        async for entry in self._bus.watch(CATALOG):
            if entry is None:
                self.known.set()
            elif entry.value is None:
                self._held.pop(entry.key, None)
            else:
                self._held[entry.key] = entry

    async def mend(self, wanted: Mapping[str, str]) -> bool:
        """Write what differs from `wanted`, and remove what is not in it.

        Where another registry wrote first its word is taken in and compared the next time: False
        says so. Raises BusError; what was not written then is written the next time.
        """
        await self.known.wait()
        async with self._lock:
            foreign, self._foreign = self._foreign, {}
            is_written = True
            for key, text in wanted.items():
                if not self._differs(key, text):
                    self._shown[key] = text
                elif self._shown.get(key) != text or self._has_stood(key, foreign):
                    is_written &= await self._put(key, text)
            for key in [key for key in self._held if key not in wanted]:
                if key in self._shown or self._has_stood(key, foreign):
                    await self._bus.delete(CATALOG, key)
                    self._held.pop(key, None)
            self._shown = {key: self._shown[key] for key in wanted if key in self._shown}
            return is_written

    def _differs(self, key: str, text: str) -> bool:
        held = self._held.get(key)
        return held is None or held.value != text.encode()

    def _has_stood(self, key: str, foreign: Mapping[tuple[str, int], float]) -> bool:
        """Tell whether what another wrote has stood for long; note since when it does."""
        held = self._held.get(key)
        place = (key, held.revision if held is not None else 0)
        now_s = time.monotonic()
        self._foreign[place] = foreign.get(place, now_s)
        return now_s - self._foreign[place] >= self._patience_s

    async def _put(self, key: str, text: str) -> bool:
        held, value = self._held.get(key), text.encode()
        try:
            revision = await self._bus.put(
                CATALOG, key, value, revision=0 if held is None else held.revision
            )
        except Conflict:
            _log.info("another registry wrote %s first", key)
            return False
        self._held[key] = Entry(CATALOG, key, value, revision)
        self._shown[key] = text
        return True
