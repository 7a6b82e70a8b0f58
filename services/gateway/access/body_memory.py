"""The memory that the bodies of requests take together, so that nobody fills it with slow ones."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.gateway.errors import TooManyBodies

LARGEST_BODIES = 32
"""How many bodies of the largest size are in memory at once, at most."""

TakeBytes = Callable[[int], None]
"""Counts bytes of a body that is read into memory. Raises TooManyBodies."""


class BodyMemory:
    """Counts the bytes of bodies until their requests are answered."""

    def __init__(self, most_bytes: int) -> None:
        """Allow `most_bytes` in all; one person may have half of them."""
        self._most_bytes = most_bytes
        self._held_bytes: Counter[str] = Counter()

    @contextmanager
    def of_request(self, person: str) -> Iterator[TakeBytes]:
        """Lend what counts the bytes of one request's body, of a `person` ('': the user's)."""
        taken_bytes = 0

        def take(size_bytes: int) -> None:
            nonlocal taken_bytes
            is_full = self._held_bytes.total() + size_bytes > self._most_bytes
            of_person_bytes = self._held_bytes[person] + size_bytes
            if is_full or (person and 2 * of_person_bytes > self._most_bytes):
                raise TooManyBodies(self._most_bytes)
            self._held_bytes[person] += size_bytes
            taken_bytes += size_bytes

        try:
            yield take
        finally:
            self._held_bytes[person] -= taken_bytes
            self._held_bytes = +self._held_bytes
