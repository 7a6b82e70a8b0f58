"""Drift between two evaluations: what lies between them, and how much others like them differ.

The blocks of separate evaluations do not take turns, so the interval of a change holds only the
noise within each. Whatever changed from one to the other (clocks, heat, a neighbour) counts as a
change too, unless evaluations of one subject say how much that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.counts import many, verb
from mlscope.quantities import lapse_text
from mlscope.statistics import repeat_limit
from services.analyzer.building.margins import Margin
from services.analyzer.building.noise import NOISY
from services.analyzer.comparisons.likeness import differing_conditions
from services.analyzer.comparisons.pairing import PAIRED_BY, VERSIONS, key_of, latency_rows
from services.analyzer.comparisons.source import Cells, Source

LEAST_REPEATS = 3
"""Evaluations of one subject, beside the two compared, from which drift is known."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What lies between two evaluations: `limit` is the share up to which drift alone differs."""

    lapse_s: float | None
    repeats: int
    limit: float | None

    def widened(self, change: Margin) -> Margin:
        """Return a `change` (a share) whose interval contains what drift alone may change.

        That is the ratio over and times 1 + `limit`, where the interval is not wider already; both
        hold the noise within evaluations, so they do not add up.
        """
        if self.limit is None or change.value is None or change.low is None or change.high is None:
            return change
        ratio = change.value + 1.0
        low, high = ratio / (1.0 + self.limit) - 1.0, ratio * (1.0 + self.limit) - 1.0
        return Margin(change.value, min(change.low, low), max(change.high, high))

    def cells(self) -> dict[str, Any]:
        """Return the cells of a row of regressions."""
        lapse = [] if self.lapse_s is None else [f"begun {lapse_text(self.lapse_s)} apart"]
        holds = "leaves out" if self.limit is None else "includes"
        return {
            "lapse_s": self.lapse_s,
            "repeats": self.repeats,
            "drift_share": self.limit,
            "drift": "; ".join([*lapse, f"the interval {holds} drift between evaluations"]),
        }


def drift_between(first: Source, second: Source, old: Cells, others: Sequence[Source]) -> Drift:
    """Return the drift between `first` and `second`, where `old` is a row of latency of `first`.

    Of `others` those count that measured the load of `old` under like conditions; evaluations with
    the same versions are those of one subject.
    """
    lapse_s = None
    if first.began_s is not None and second.began_s is not None:
        lapse_s = abs(second.began_s - first.began_s)
    load = key_of(first, old, PAIRED_BY)
    figures: list[tuple[object, float]] = []
    for other in others:
        alike = (
            row
            for row in latency_rows(other)
            if key_of(other, row, PAIRED_BY) == load
            and row["trimmed_mean"]
            and not differing_conditions(first, other, old, row)
        )
        if row := next(alike, None):
            figures.append((key_of(other, row, VERSIONS), row["trimmed_mean"]))
    return Drift(lapse_s, len(figures), repeat_limit(figures))


def noisy_sides(first: Source, second: Source, old: Cells, new: Cells) -> str:
    """Return which run has a caveat about noise: first, second, both or ''.

    `old` is a row of latency of `first`, `new` one of `second`.
    """
    noisy = [
        name
        for name, source, row in (("first", first, old), ("second", second, new))
        if any(note.startswith(f"{row['run']}: {NOISY}") for note in source.caveats("latency"))
    ]
    return "both" if len(noisy) == 2 else "".join(noisy)


def drift_text(rows: Sequence[Cells]) -> str:
    """Return for a verdict how far apart pairs began, what their intervals hold, and the noise."""
    lapses = sorted(row["lapse_s"] for row in rows if row["lapse_s"] is not None)
    ends = dict.fromkeys(map(lapse_text, (lapses[0], lapses[-1]))) if lapses else {}
    parts = [f"begun {' to '.join(ends)} apart"] if ends else []
    lacking = sum(row["drift_share"] is None for row in rows)
    whose = "the interval" if len(rows) == 1 else "the intervals"
    if 0 < lacking < len(rows):
        whose = f"{lacking} of {len(rows)} intervals"
    holds = ("leave" if lacking else "include") + ("s" if len(rows) == 1 else "")
    parts.append(f"{whose} {holds}{' out' if lacking else ''} drift between evaluations")
    if noisy := sum(bool(row["noisy"]) for row in rows):
        parts.append(
            f"{noisy} of {many(len(rows), 'pair')} {verb(noisy, 'has', 'have')} noisy runs"
        )
    return "; ".join(parts)


def remedy(first: Source, second: Source) -> str:
    """Return a caveat that says what includes drift in the interval, with the commands.

    `first` and `second` are compared, and fewer than `LEAST_REPEATS` others are like them.
    """
    commands = list(dict.fromkeys(filter(None, (first.command, second.command))))
    times = f"{LEAST_REPEATS} times" if len(commands) == 1 else "twice each, by turns,"
    typed = f": {' and '.join(f'`{command}`' for command in commands)}" if commands else ""
    return (
        f"{second.evaluation}: a change may be drift between the evaluations, as fewer than "
        f"{LEAST_REPEATS} others like them are stored; measure again {times} and compare again"
        f"{typed}"
    )


def drift_note(sources: Sequence[Source]) -> str:
    """Return a caveat of tables whose intervals hold no drift; '' for a single evaluation."""
    if len(sources) < 2:
        return ""
    began = sorted(source.began_s for source in sources if source.began_s is not None)
    lapse = f", begun {lapse_text(began[-1] - began[0])} apart" if len(began) > 1 else ""
    return (
        f"the intervals leave out drift between the evaluations{lapse}; the table regressions "
        "includes it where it is known"
    )
