"""A cache whose values have sizes: the least recently used ones go when it is full. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[Hashable, ...]


class BoundedCache(Generic[T]):
    """At most `most_values` by key, of `most_bytes` together; the newest one always stays."""

    def __init__(self, most_bytes: int, most_values: int) -> None:
        """Begin empty."""
        self._most_bytes = most_bytes
        self._most_values = most_values
        self._values: OrderedDict[Key, tuple[T, int]] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        """The size of all values."""
        return sum(size for _, size in self._values.values())

    def get(self, key: Key) -> T | None:
        """Return a value, which is the most recently used one now, or None."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: Key, value: T, size_bytes: int) -> None:
        """Add the `value` of a `key`, of `size_bytes`; drop others until both bounds hold."""
        self._values[key] = (value, size_bytes)
        self._values.move_to_end(key)
        while len(self._values) > 1 and (
            len(self._values) > self._most_values or self.size_bytes > self._most_bytes
        ):
            self._values.popitem(last=False)

    def drop(self, first: Hashable) -> None:
        """Remove the values whose key begins with `first`."""
        for key in [key for key in self._values if key[0] == first]:
            del self._values[key]
