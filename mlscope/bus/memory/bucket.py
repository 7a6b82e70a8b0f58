"""A key-value bucket in memory: revisions, deletions, keys that run out."""

from collections import deque

from mlscope.bus.bus import Entry
from mlscope.bus.errors import Conflict
from mlscope.bus.memory.log import Clock
from mlscope.bus.streams import Bucket


class BucketState:
    """One bucket; each watcher has a queue of changes."""

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        """Begin empty."""
        self.bucket = bucket
        self.watchers: list[deque[Entry]] = []
        self._clock = clock
        self._revision = 0
        self._entries: dict[str, Entry] = {}
        self._ends_s: dict[str, float] = {}

    def put(self, key: str, value: bytes | None, revision: int | None = None) -> int:
        """Set a key, or remove it (None), and return its revision. Raises Conflict."""
        self.expire()
        held = self._entries.get(key)
        newest = held.revision if held is not None else 0
        is_new = held is None or held.value is None
        if revision is not None and revision != newest and not (revision == 0 and is_new):
            raise Conflict(f"{self.bucket.name} {key}", revision)
        self._revision += 1
        self._change(Entry(self.bucket.name, key, value, self._revision))
        if self.bucket.ttl_s and value is not None:
            self._ends_s[key] = self._clock() + self.bucket.ttl_s
        return self._revision

    def get(self, key: str) -> Entry | None:
        """Return a key's entry, or None when it is gone."""
        self.expire()
        entry = self._entries.get(key)
        return None if entry is None or entry.value is None else entry

    def entries(self) -> list[Entry]:
        """Return what is held, oldest change first."""
        self.expire()
        held = (entry for entry in self._entries.values() if entry.value is not None)
        return sorted(held, key=lambda entry: entry.revision)

    def changes(self, after: int) -> list[Entry]:
        """Return what was set or removed beyond a revision, oldest change first."""
        self.expire()
        changed = (entry for entry in self._entries.values() if entry.revision > after)
        return sorted(changed, key=lambda entry: entry.revision)

    def expire(self) -> None:
        """Remove the keys whose time is over; watchers see them go."""
        now_s = self._clock()
        for key in [key for key, end_s in self._ends_s.items() if end_s <= now_s]:
            self._revision += 1
            self._change(Entry(self.bucket.name, key, None, self._revision))

    def next_end_s(self) -> float | None:
        """Return when the next key runs out, or None."""
        return min(self._ends_s.values(), default=None)

    def _change(self, entry: Entry) -> None:
        self._ends_s.pop(entry.key, None)
        self._entries[entry.key] = entry
        for watcher in self.watchers:
            watcher.append(entry)
