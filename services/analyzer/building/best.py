"""The best row of a table for a sentence: named only where its interval is clear of the others."""

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

    def doubt(
        self, question: str, name_of: Callable[[Cells], str], details: Sequence[str] = ()
    ) -> str:
        """Return "the intervals do not tell which is fastest: A, B or 3 more", '' without a doubt.

        "which is fastest" is the `question`, and `name_of` returns the name of a row for it. Rows
        of one name are told apart by the columns `details` in which they differ, else by numbers.
        """
        if not self.rivals:
            return ""
        names = _distinct_names((self.row, *self.rivals), name_of, details)
        omitted = len(names) - MOST_NAMED
        shown = names[:MOST_NAMED] + ([f"{omitted} more"] if omitted > 0 else [])
        return f"the intervals do not tell {question}: {', '.join(shown[:-1])} or {shown[-1]}"


def capitalised(text: str) -> str:
    """Return a text with its first letter in upper case, and the others as they are."""
    return text[:1].upper() + text[1:]


def _distinct_names(
    rows: Sequence[Cells], name_of: Callable[[Cells], str], details: Sequence[str]
) -> list[str]:
    """Return the names of the rows, each with as many of the `details` as make it distinct."""
    keys: list[tuple[str, ...]] = [(name_of(row),) for row in rows]
    for detail in details:
        texts = [f"{detail.replace('_', ' ')} {row.get(detail)}" for row in rows]
        differing = [
            len({text for text, row_key in zip(texts, keys, strict=True) if row_key == key}) > 1
            for key in keys
        ]
        pairs = zip(keys, texts, differing, strict=True)
        keys = [(*key, text) if is_needed else key for key, text, is_needed in pairs]
    numbers = [keys[: place + 1].count(key) for place, key in enumerate(keys)]
    keys = [
        (*key, f"{number} of {keys.count(key)}") if keys.count(key) > 1 else key
        for key, number in zip(keys, numbers, strict=True)
    ]
    return [f"{name} ({', '.join(details)})" if details else name for name, *details in keys]


def leader(rows: Sequence[Cells], column: str, *, is_largest: bool = True) -> Leader:
    """Return the one of `rows` whose estimate in `column` is best, and its rivals.

    The best is the largest, or the smallest unless `is_largest`.
    The ends of the interval are in the columns `column`_low and `column`_high. Raises NoValues
    where no row has a value.
    """
    with_value = [row for row in rows if row[column] is not None]
    estimates = [estimate_in(row, column) for row in with_value]
    ranked = best_of(estimates, is_largest=is_largest)
    return Leader(with_value[ranked.place], [with_value[place] for place in ranked.rivals])


def estimate_in(row: Cells, column: str) -> Estimate:
    """Return the estimate in a `column` of a row, with its interval."""
    return Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"])


def may_be_none(low: float | None, high: float | None) -> bool:
    """Return whether a difference may be 0, by the ends of its interval; unknown ends: no."""
    return low is not None and high is not None and low <= 0.0 <= high


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
