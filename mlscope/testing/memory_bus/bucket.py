"""A key-value bucket in memory: revisions, deletions, keys that expire."""

from collections import deque

from mlscope.bus.errors import Conflict
from mlscope.bus.records import Entry
from mlscope.bus.streams import Bucket
from mlscope.testing.memory_bus.log import Clock


class BucketState:
    """The state of one bucket; each watcher has a queue of changes."""

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        """Start empty; keys expire by `clock`."""
        self.bucket = bucket
        self.watchers: list[deque[Entry]] = []
        self._clock = clock
        self._revision = 0
        self._entries: dict[str, Entry] = {}
        self._ends_s: dict[str, float] = {}

    def put(self, key: str, value: bytes | None, revision: int | None = None) -> int:
        """Set `key` to `value`, or remove it (None), and return its new revision.

        With `revision`, only if that is the key's newest one; 0 means that the key must be new.
        Raises Conflict.
        """
        self.expire()
        newest_entry = self._entries.get(key)
        newest = newest_entry.revision if newest_entry is not None else 0
        is_new = newest_entry is None or newest_entry.value is None
        if revision is not None and revision != newest and not (revision == 0 and is_new):
            raise Conflict(f"{self.bucket.name} {key}", revision)
        self._revision += 1
        self._change(Entry(self.bucket.name, key, value, self._revision))
        if self.bucket.ttl_s and value is not None:
            self._ends_s[key] = self._clock() + self.bucket.ttl_s
        return self._revision

    def get(self, key: str) -> Entry | None:
        """Return a key's entry, or None if the key does not exist."""
        self.expire()
        entry = self._entries.get(key)
        return None if entry is None or entry.value is None else entry

    def entries(self) -> list[Entry]:
        """Return the current entries, oldest change first."""
        self.expire()
        current = (entry for entry in self._entries.values() if entry.value is not None)
        return sorted(current, key=lambda entry: entry.revision)

    def changes(self, after: int) -> list[Entry]:
        """Return the keys set or removed after a revision, oldest change first."""
        self.expire()
        changed = (entry for entry in self._entries.values() if entry.revision > after)
        return sorted(changed, key=lambda entry: entry.revision)

    def expire(self) -> None:
        """Remove the expired keys; watchers see their removal."""
        now_s = self._clock()
        for key in [key for key, end_s in self._ends_s.items() if end_s <= now_s]:
            self._revision += 1
            self._change(Entry(self.bucket.name, key, None, self._revision))

    def next_end_s(self) -> float | None:
        """Return the clock time at which the next key expires, or None."""
        return min(self._ends_s.values(), default=None)

    def _change(self, entry: Entry) -> None:
        self._ends_s.pop(entry.key, None)
        self._entries[entry.key] = entry
        for watcher in self.watchers:
            watcher.append(entry)
