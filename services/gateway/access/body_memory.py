"""The memory that the bodies of requests take together, so that nobody fills it with slow ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlscope.bus.shares import Shares
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
        self._held_bytes = Shares(most_bytes)

    @contextmanager
    def of_request(self, person: str) -> Iterator[TakeBytes]:
        """Lend what counts the bytes of one request's body, of a `person` ('': the user's)."""
        taken_bytes = 0

        def take(size_bytes: int) -> None:
            nonlocal taken_bytes
            if not self._held_bytes.has_room(person, size_bytes):
                raise TooManyBodies(self._most_bytes)
            self._held_bytes.add(person, size_bytes)
            taken_bytes += size_bytes

        try:
            yield take
        finally:
            self._held_bytes.add(person, -taken_bytes)
