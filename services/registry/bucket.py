"""Keeps the bucket `catalog` equal to the fold (I/O). Several registries may do so at once."""

import asyncio
import logging
from collections.abc import Mapping

from mlscope.bus.bus import Bus, Entry
from mlscope.bus.errors import Conflict

CATALOG = "catalog"
_log = logging.getLogger(__name__)


class CatalogBucket:
    """What the bucket holds, as its watch tells, and the writes that mend it."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`; `watch` must run meanwhile."""
        self._bus = bus
        self._held: dict[str, Entry] = {}
        self._lock = asyncio.Lock()
        self.known = asyncio.Event()

    async def watch(self) -> None:
        """Take in what the bucket holds, for ever; `known` is set once all of it is seen."""
        async for entry in self._bus.watch(CATALOG):
            if entry is None:
                self.known.set()
            elif entry.value is None:
                self._held.pop(entry.key, None)
            else:
                self._held[entry.key] = entry

    async def mend(self, wanted: Mapping[str, str]) -> None:
        """Write what differs from `wanted`, and remove what is not in it.

        Where another registry wrote first its word is taken in and compared the next time.
        """
        await self.known.wait()
        async with self._lock:
            for key, text in wanted.items():
                await self._put(key, text.encode())
            for key in [key for key in self._held if key not in wanted]:
                await self._bus.delete(CATALOG, key)
                self._held.pop(key, None)

    async def _put(self, key: str, value: bytes) -> None:
        held = self._held.get(key)
        if held is not None and held.value == value:
            return
        try:
            revision = await self._bus.put(
                CATALOG, key, value, revision=0 if held is None else held.revision
            )
        except Conflict:
            _log.info("another registry wrote %s first", key)
        else:
            self._held[key] = Entry(CATALOG, key, value, revision)
