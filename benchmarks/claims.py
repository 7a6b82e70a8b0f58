"""Figures beside their budgets, gathered from all benchmarks of a run for its summary."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "MLSCOPE_BENCHMARK_CLAIMS"
"""Names the file to which a benchmark adds its claims; without it they are printed only."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure and its budget: an upper bound, or a lower one where `is_least`."""

    subject: str
    value: float
    bound: float
    unit: str
    #: what the same run measured of a peer or a floor, in words; '' where there is none
    peer: str = ""
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the figure keeps to its budget."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound


def claim(
    subject: str,
    value: float,
    *,
    most: float | None = None,
    least: float = 0.0,
    unit: str,
    peer: str = "",
) -> bool:
    """Note a figure for the summary; tell whether it keeps to its budget.

    `subject` says what it is; `value` and `most` (or `least`) are in `unit`; `peer` is what the
    same run measured of a peer or a floor, in words.
    """
    bound = least if most is None else most
    figure_claim = Claim(subject, float(value), bound, unit, peer, is_least=most is None)
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure_claim)) + "\n")
    return figure_claim.is_met


def claims_in(path: Path) -> list[Claim]:
    """Return the claims that a file holds, none where it does not exist."""
    if not path.exists():
        return []
    return [Claim(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def summary_of(rows: Sequence[tuple[str, Claim]]) -> str:
    """Return claims, each with the name of its benchmark, as a table; the missed are marked."""
    cells = [("benchmark", "what", "figure", "budget", "", "peer or floor in the same run")]
    for name, row_claim in rows:
        sign = "≥" if row_claim.is_least else "≤"
        met = "met" if row_claim.is_met else "MISSED"
        figure, bound = (f"{number:,.4g}" for number in (row_claim.value, row_claim.bound))
        texts = row_claim.subject, f"{figure} {row_claim.unit}", f"{sign} {bound}", met
        cells.append((name, *texts, row_claim.peer))
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
