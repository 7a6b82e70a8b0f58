"""Options of a reader. Each method takes one option and names it in the error if it is wrong."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlscope.datasets.errors import BadOption

if TYPE_CHECKING:
    import numpy as np

_MISSING = object()


class Options:
    """The options of one reader. An option that no method has taken is unknown to the reader.

    Every method raises BadOption where the option has a value of another type or range.
    """

    def __init__(self, reader: str, values: Mapping[str, Any]) -> None:
        self.reader = reader
        self._unread = dict(values)
        self._names: list[str] = []

    def reject_unread(self) -> None:
        """Raise BadOption for an option that the reader has not taken."""
        if self._unread:
            name, value = next(iter(self._unread.items()))
            expected = f"one of {', '.join(self._names)}" if self._names else "left out"
            raise BadOption(self.reader, str(name), value, expected)

    def text(self, name: str, default: str | None = "") -> str:
        """Return a text. With `default` None the option is required and not empty."""
        value = self._take(name, default)
        if not isinstance(value, str) or (default is None and not value):
            raise BadOption(self.reader, name, value, "a text")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """Return the option `name`, one of `allowed`, or `default`."""
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

    def integer(self, name: str, default: int, least: int = 0) -> int:
        """Return the option `name`, an integer of at least `least`, or `default`."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadOption(self.reader, name, value, f"an integer of at least {least}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; a single text counts as a list of one."""
        value = self._take(name, ())
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise BadOption(self.reader, name, value, "a list of texts")
        return tuple(texts)

    def element_type(self, name: str, default: str) -> "np.dtype[Any]":
        """Return the element type of numbers: an integer, float or boolean type of NumPy."""
        import numpy as np

        value = self._take(name, default)
        try:
            element_type: np.dtype[Any] = np.dtype(value)
        except TypeError:
            element_type = np.dtype(object)
        if element_type.kind not in "fiub":
            raise BadOption(self.reader, name, value, "an element type of numbers, as float32")
        return element_type

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a shape; () where the option is absent."""
        value = self._take(name, ())
        if not isinstance(value, list | tuple) or not all(
            isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in value
        ):
            raise BadOption(self.reader, name, value, "a list of integers of at least 1")
        return tuple(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a map; {} where the option is absent."""
        value = self._take(name, {})
        if not isinstance(value, Mapping):
            raise BadOption(self.reader, name, value, "a map")
        return value

    def _take(self, name: str, default: object) -> Any:
        self._names.append(name)
        value = self._unread.pop(name, _MISSING)
        return default if value is _MISSING else value

    # Names of release 0.1, for readers in other packages. Release 0.3 drops them.
    whole, below, done = integer, mapping, reject_unread
