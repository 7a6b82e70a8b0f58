"""The base of objects that stand before a bus: they change some calls and pass on all others."""

from typing import Any

from mlscope.bus.bus import Bus


class WrappedBus:
    """A bus whose calls are those of another one; a subclass overrides those that it changes.

    An override names only the options that it reads; it passes on the others as it got them.
    """

    def __init__(self, bus: Bus) -> None:
        """Pass calls on to `bus`."""
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        """Return what the wrapped bus has under `name`."""
        return getattr(self._bus, name)
