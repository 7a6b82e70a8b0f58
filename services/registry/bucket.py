"""Keeps the bucket `catalog` equal to the catalog's state (I/O), as several registries may do.

If the bucket differs although the own state did not change, another registry wrote it, whose state
may be newer. Its entries are accepted for a while, because deleting an agent and writing it again
would interrupt the agent's runs.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict
from mlscope.bus.records import Entry

CATALOG = "catalog"
_log = logging.getLogger(__name__)


class CatalogBucket:
    """The content of the bucket, from a watch, and the writes that update it."""

    def __init__(self, bus: Bus, patience_s: float) -> None:
        """Use `bus`; `watch` must run. Others' entries are accepted for `patience_s` seconds."""
        self._bus = bus
        self._patience_s = patience_s
        #: the texts that the own state required and the bucket has had since
        self._shown: dict[str, str] = {}
        #: the time (CLOCK_MONOTONIC) of another registry's entry, by key and revision (0: deleted)
        self._foreign: dict[tuple[str, int], float] = {}
        self._entries: dict[str, Entry] = {}
        self._lock = asyncio.Lock()
        self.known = asyncio.Event()

    @property
    def keys(self) -> frozenset[str]:
        """The keys in the bucket, as far as the watch has read."""
        return frozenset(self._entries)

    async def watch(self) -> None:
        """Follow the bucket, without end; `known` is set once all entries were read."""
        async for entry in self._bus.watch(CATALOG):
            if entry is None:
                self.known.set()
            elif entry.value is None:
                self._entries.pop(entry.key, None)
            else:
                self._entries[entry.key] = entry

    async def write_differences(self, target: Mapping[str, str]) -> bool:
        """Write the entries that differ from `target`, and delete those that are not in it.

        Returns False if another registry wrote an entry first; that entry is compared at the next
        call. Raises BusError; the remaining entries are written at the next call.
        """
        await self.known.wait()
        async with self._lock:
            foreign, self._foreign = self._foreign, {}
            is_written = True
            for key, text in target.items():
                entry = self._entries.get(key)
                if entry is not None and entry.value == text.encode():
                    self._shown[key] = text
                elif self._shown.get(key) != text or self._has_stood(key, foreign):
                    is_written &= await self._put(key, text)
            for key in [key for key in self._entries if key not in target]:
                if key in self._shown or self._has_stood(key, foreign):
                    await self._bus.delete(CATALOG, key)
                    self._entries.pop(key, None)
            self._shown = {key: self._shown[key] for key in target if key in self._shown}
            return is_written

    def _has_stood(self, key: str, foreign: Mapping[tuple[str, int], float]) -> bool:
        """Tell whether another registry's entry was accepted for long enough; note its time."""
        entry = self._entries.get(key)
        place = (key, entry.revision if entry is not None else 0)
        now_s = time.monotonic()
        self._foreign[place] = foreign.get(place, now_s)
        return now_s - self._foreign[place] >= self._patience_s

    async def _put(self, key: str, text: str) -> bool:
        entry, value = self._entries.get(key), text.encode()
        try:
            revision = await self._bus.put(
                CATALOG, key, value, revision=0 if entry is None else entry.revision
            )
        except Conflict:
            _log.info("another registry wrote %s first", key)
            return False
        self._entries[key] = Entry(CATALOG, key, value, revision)
        self._shown[key] = text
        return True
