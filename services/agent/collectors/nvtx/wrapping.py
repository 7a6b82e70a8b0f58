"""Functions of foreign modules and classes, replaced by wrappers and put back afterwards."""

from typing import Any


class Replacements:
    """The attributes that were replaced, with their original values."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace the attribute `name` of its `owner`, a module or class, by the `replacement`."""
        self._originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, replacement)

    def undo(self) -> None:
        """Put back what was replaced, the last replacement first."""
        while self._originals:
            setattr(*self._originals.pop())

    def make_permanent(self) -> None:
        """Keep the replacements from now on: `undo` no longer puts the originals back."""
        self._originals.clear()
