"""A registry's fold without a service around it."""

from mlscope.bus.bus import Bus
from services.registry.state import RegistryState, fold


class FoldOfLog:
    """A fold that is always as far as the log."""

    def __init__(self, bus: Bus, subjects: str) -> None:
        """Fold the facts on `subjects` alone."""
        self._bus = bus
        self._subjects = subjects
        self.state = RegistryState()
        self.refused: dict[str, str] = {}

    async def reached(self, *, fleet: int = 0, catalog: int = 0) -> None:
        """Fold the log anew."""
        self.state = fold(await self._bus.read(self._subjects))
        assert (self.state.fleet_sequence, self.state.catalog_sequence) >= (fleet, catalog)
