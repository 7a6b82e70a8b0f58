"""The best row of a table for a sentence: named only where its interval puts it beyond doubt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.quantities import estimated, time_scale
from mlscope.statistics import Estimate
from mlscope.statistics import best as best_of

MOST_NAMED = 3
"""The most candidates that a sentence names."""
Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Leader:
    """The best `row`, and the rows that its interval does not tell apart from it, best first."""

    row: Cells
    rivals: Sequence[Cells] = ()

    def doubt(self, name_of: Callable[[Cells], str]) -> str:
        """Return "not told apart: A, B and 3 more" where there is a doubt, else ''.

        `name_of` returns the name of a row for a sentence.
        """
        if not self.rivals:
            return ""
        names = list(dict.fromkeys(map(name_of, (self.row, *self.rivals))))
        omitted = len(names) - MOST_NAMED
        shown = names[:MOST_NAMED] + ([f"{omitted} more"] if omitted > 0 else [])
        return f"not told apart: {', '.join(shown[:-1])} and {shown[-1]}"


def leader(rows: Sequence[Cells], column: str, *, is_largest: bool = True) -> Leader:
    """Return the one of `rows` whose estimate in `column` is best, and its rivals.

    The best is the largest, or the smallest unless `is_largest`.
    The ends of the interval are in the columns `column`_low and `column`_high. Raises NoValues
    where no row has a value.
    """
    known = [row for row in rows if row[column] is not None]
    estimates = [estimate_in(row, column) for row in known]
    ranked = best_of(estimates, is_largest=is_largest)
    return Leader(known[ranked.place], [known[place] for place in ranked.rivals])


def estimate_in(row: Cells, column: str) -> Estimate:
    """Return the estimate in a `column` of a row, with its interval."""
    return Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"])


def overhead_text(value: float, low: float | None, high: float | None) -> str:
    """Return an overhead (ns) for a sentence: what it adds, or "none seen" where it may be 0.

    `low` and `high` are the ends of the interval of its `value`.
    """
    if low is None or high is None or not low <= 0.0 <= high:
        return estimated(value, low, high, "ns")
    unit_ns, unit = time_scale(max(-low, high))
    ends = (f"{end / unit_ns:+.3g}" for end in (low, high))
    return f"none seen ({' … '.join(ends)} {unit})"


def estimate_text(row: Cells, column: str, unit: str = "ns") -> str:
    """Return the estimate in a `column` of a row, in `unit`, with its interval for a sentence."""
    return estimated(row[column], row[f"{column}_low"], row[f"{column}_high"], unit)
