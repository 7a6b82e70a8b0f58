"""Shares of something bounded, so that one person never uses up what all share. Pure."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Shares:
    """Counts what people hold of something: `most` together, and one person half of it."""

    def __init__(self, most: int) -> None:
        """Share `most`; where it is odd, its half is rounded up."""
        self._most = most
        self._held: Counter[str] = Counter()

    def leaves_half(self, person: str, amount: int = 1) -> bool:
        """Tell whether a `person` ('': the cluster's user, always) may hold an `amount` more."""
        return not person or self._held[person] + amount <= (self._most + 1) // 2

    def has_room(self, person: str, amount: int = 1) -> bool:
        """Tell whether there is an `amount` more, and a `person` may hold it."""
        return self.leaves_half(person, amount) and self._held.total() + amount <= self._most

    def add(self, person: str, amount: int = 1) -> None:
        """Count an `amount` more that a `person` holds, or less where it is negative."""
        self._held += Counter({person: amount})  # and forgets who holds nothing

    @contextmanager
    def one_of(self, person: str) -> Iterator[None]:
        """Count one that a `person` holds while the context is open, whether or not it fits."""
        self.add(person)
        try:
            yield
        finally:
            self.add(person, -1)
