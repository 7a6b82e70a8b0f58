"""Caveats grouped by their cause, so that a reader sees few lines first. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.counts import many
from mlscope.texts.shortening import at_end

FEW_CAUSES = 3
_MOST_LETTERS = 110
"""Causes that are shown at once; the others are folded."""

_CAUSES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: re.compile(pattern)
        for name, pattern in {
            "Noise on the machine": r"noisy|throttl|issued late|issued at least",
            "Too few measurements": (
                r"too few|known to within|precise to|values? only|only \d|has an interval"
            ),
            "Incomplete data": r"incomplete|failed|dropped|lost|stored rows|never ran",
            "Times on the GPU": r"launch|ran on after|on a GPU|of NVML",
            "Cost and limits of tracing": r"tracing|traced|at level|no level|rounded down|counters",
            "Roofs": r"\broofs?\b|peak FLOP",
        }.items()
    }
)
"""Each cause and the words that its caveats have; a caveat belongs to the first that matches."""
_OTHERS = "How it was measured"
_RUNS = re.compile(r"^(?:[\w.-]+(?:, [\w.-]+)*(?: and \d+ other runs)?): ")


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause, and what it says of which runs, at least one line."""

    name: str
    lines: Sequence[str]

    @property
    def count_text(self) -> str:
        """How many caveats it has."""
        return many(len(self.lines), "caveat")

    @property
    def is_short(self) -> bool:
        """Whether it is one caveat that needs no folding."""
        return len(self.lines) == 1 and len(self.lines[0]) <= _MOST_LETTERS

    @property
    def first(self) -> str:
        """The beginning of its first caveat, without the runs that it is said of."""
        text = _RUNS.sub("", self.lines[0])
        return at_end(text[:1].upper() + text[1:], _MOST_LETTERS)


def causes_of(lines: Sequence[str]) -> list[Cause]:
    """Return caveats by their cause, in the order of `_CAUSES`, the others last."""
    grouped: dict[str, list[str]] = {name: [] for name in (*_CAUSES, _OTHERS)}
    for line in lines:
        names = [name for name, pattern in _CAUSES.items() if pattern.search(line)]
        grouped[names[0] if names else _OTHERS].append(line)
    return [Cause(name, inside) for name, inside in grouped.items() if inside]


def noise_text(run_notes: Mapping[str, Sequence[str]]) -> str:
    """Return in a sentence how many runs were noisy; `run_notes` are the caveats of each run."""
    noisy = [run for run, notes in run_notes.items() if any("noisy" in note for note in notes)]
    if not run_notes or not noisy:
        return "No noise was seen." if run_notes else ""
    if len(noisy) == len(run_notes):
        return "The run was noisy." if len(noisy) == 1 else f"All {len(noisy)} runs were noisy."
    return f"{len(noisy)} of {len(run_notes)} runs were noisy."
