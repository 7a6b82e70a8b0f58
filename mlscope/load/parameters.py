"""Reads and checks the parameters of a scenario. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from mlscope.load.errors import InvalidParameter, UnknownParameter
from mlscope.load.load import AHEAD, STREAMED, SamplesMode
from mlscope.old_names import accepting_old_names

MAX_QUERIES = 10_000_000
MAX_SAMPLES = 50_000_000

# Names of release 0.1, for scenarios of other packages. Release 0.3 drops them.
MOST_QUERIES, MOST_SAMPLES = MAX_QUERIES, MAX_SAMPLES
_accepting_bounds_0_1 = accepting_old_names(least="minimum", most="maximum")


@dataclass(frozen=True)
class Parameters:
    """The parameters of one scenario; each method checks the value that it returns."""

    scenario: str
    values: Mapping[str, Any]

    def only(self, *names: str) -> "Parameters":
        """Raise UnknownParameter for a parameter that is not in `names`, such as a misspelt one."""
        for name in self.values:
            if name not in names:
                raise UnknownParameter(self.scenario, str(name), self.values[name], names)
        return self

    @_accepting_bounds_0_1
    def integer(self, field: str, default: int, minimum: int, maximum: int) -> int:
        """Return the integer `field`, or `default`. Raises InvalidParameter.

        It must be a whole number from `minimum` to `maximum`.
        """
        value = self.values.get(field, default)
        # JSON and YAML do not distinguish 20 from 20.0; but True is not a count.
        is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not is_whole or not minimum <= value <= maximum:
            allowed = f"a whole number from {minimum} to {maximum}"
            raise InvalidParameter(self.scenario, field, value, allowed)
        return int(value)

    @_accepting_bounds_0_1
    def number(self, field: str, default: float, minimum: float, maximum: float) -> float:
        """Return the number `field`, or `default`. Raises InvalidParameter.

        It must be from `minimum` to `maximum`, which are finite.
        """
        value = self.values.get(field, default)
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        # NaN fails this comparison, too.
        if not is_number or not minimum <= value <= maximum:
            # 15 digits are what a float keeps of a decimal; unlike str they add no `.0`.
            allowed = f"a number from {minimum:.15g} to {maximum:.15g}"
            raise InvalidParameter(self.scenario, field, value, allowed)
        return float(value)

    def seed(self, field: str) -> int | None:
        """Return the seed `field`, None if it is not given. Raises InvalidParameter."""
        return self.integer(field, 0, 0, 2**64 - 1) if self.values.get(field) is not None else None

    def samples(self) -> SamplesMode:
        """Return when samples are prepared; '' if it is not given. Raises InvalidParameter."""
        match self.values.get("samples"):
            case None:
                return ""
            case "ahead":
                return AHEAD
            case "streamed":
                return STREAMED
            case value:
                allowed = f"{AHEAD} or {STREAMED}"
                raise InvalidParameter(self.scenario, "samples", value, allowed)

    def queries(self, default: int, batch_size: int) -> int:
        """Return the number of queries, or `default`. Raises InvalidParameter.

        With `batch_size` samples each, they must fit into memory.
        """
        maximum = max(1, min(MAX_QUERIES, MAX_SAMPLES // batch_size))
        return self.integer("queries", default, 1, maximum)

    whole = integer  # its name of release 0.1, which release 0.3 drops


def shortened(parameters: Mapping[str, Any], queries: int) -> Mapping[str, Any]:
    """Return the parameters of a load with `queries` queries in place of more.

    They are the same ones where not more are asked for, or a number that no scenario takes.
    """
    wanted = parameters.get("queries")
    if not isinstance(wanted, int | float) or not queries < wanted <= MAX_QUERIES or wanted % 1:
        return parameters
    return {**parameters, "queries": queries}
