"""A reader's options: each read checks one and names it when it is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlscope.datasets.errors import BadOption

_MISSING = object()


class Options:
    """The options of one reader; what nobody read by `done` is unknown."""

    def __init__(self, reader: str, values: Mapping[str, Any]) -> None:
        self.reader = reader
        self._left = dict(values)
        self._known: list[str] = []

    def done(self) -> None:
        """Raise BadOption when an option is left that the reader does not know."""
        if self._left:
            name, value = next(iter(self._left.items()))
            known = f"one of {', '.join(self._known)}" if self._known else "left out"
            raise BadOption(self.reader, str(name), value, known)

    def text(self, name: str, default: str | None = "") -> str:
        """Return a text; without a default it is needed."""
        value = self._take(name, default)
        if not isinstance(value, str) or (default is None and not value):
            raise BadOption(self.reader, name, value, "a text")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """Return one of `allowed`."""
        value = self._take(name, default)
        if value not in allowed:
            raise BadOption(self.reader, name, value, f"one of {', '.join(allowed)}")
        return str(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise BadOption(self.reader, name, value, "true or false")
        return value

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """Return a whole number of at least `least`."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadOption(self.reader, name, value, f"a whole number from {least}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, or one text as a list of one."""
        value = self._take(name, ())
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list | tuple) or not all(isinstance(e, str) for e in several):
            raise BadOption(self.reader, name, value, "a list of texts")
        return tuple(several)

    def element_type(self, name: str, default: str) -> np.dtype[Any]:
        """Return the element type of numbers."""
        value = self._take(name, default)
        try:
            kind: np.dtype[Any] = np.dtype(value)
        except TypeError:
            kind = np.dtype(object)
        if kind.kind not in "fiub":
            raise BadOption(self.reader, name, value, "an element type of numbers, as float32")
        return kind

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a shape, empty where none is given."""
        value = self._take(name, ())
        if not isinstance(value, list | tuple) or not all(
            isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in value
        ):
            raise BadOption(self.reader, name, value, "a list of whole numbers from 1")
        return tuple(value)

    def below(self, name: str) -> Mapping[str, Any]:
        """Return a map, empty where none is given."""
        value = self._take(name, {})
        if not isinstance(value, Mapping):
            raise BadOption(self.reader, name, value, "a map")
        return value

    def _take(self, name: str, default: object) -> Any:
        self._known.append(name)
        value = self._left.pop(name, _MISSING)
        return default if value is _MISSING else value
