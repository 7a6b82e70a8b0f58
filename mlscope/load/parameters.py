"""Reads a scenario's parameters and refuses, by name, what the scenario cannot use."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from mlscope.load.errors import InvalidParameter

MOST_QUERIES = 10_000_000
MOST_SAMPLES = 50_000_000


@dataclass(frozen=True)
class Parameters:
    """The parameters of one scenario; every reading checks the value it returns."""

    scenario: str
    values: Mapping[str, Any]

    def only(self, *names: str) -> "Parameters":
        """Refuse any parameter not among `names`: a misspelt one would otherwise do nothing."""
        for name in self.values:
            if name not in names:
                allowed = f"one of: {', '.join(names)}"
                raise InvalidParameter(self.scenario, str(name), self.values[name], allowed)
        return self

    def whole(self, field: str, default: int, least: int, most: int) -> int:
        """Read a whole number from `least` to `most`."""
        found = self.values.get(field, default)
        # JSON and YAML do not tell 20 from 20.0, but True is no count.
        is_whole = isinstance(found, Integral) or (isinstance(found, float) and found.is_integer())
        if isinstance(found, bool) or not is_whole or not least <= found <= most:
            allowed = f"a whole number from {least} to {most}"
            raise InvalidParameter(self.scenario, field, found, allowed)
        return int(found)

    def number(self, field: str, default: float, least: float, most: float) -> float:
        """Read a number from `least` to `most`, which are finite."""
        found = self.values.get(field, default)
        is_number = isinstance(found, Real) and not isinstance(found, bool)
        # Not a number is not within bounds either.
        if not is_number or not least <= found <= most:
            raise InvalidParameter(self.scenario, field, found, f"a number from {least} to {most}")
        return float(found)

    def seed(self, field: str) -> int | None:
        """Read a seed, or None where none is given."""
        return self.whole(field, 0, 0, 2**64 - 1) if self.values.get(field) is not None else None

    def queries(self, default: int, batch_size: int) -> int:
        """Read how many queries; with `batch_size`, bounded by what fits in memory."""
        most = max(1, min(MOST_QUERIES, MOST_SAMPLES // batch_size))
        return self.whole("queries", default, 1, most)
