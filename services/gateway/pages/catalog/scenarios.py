"""The page of scenarios: when each issues its queries, drawn from its own schedule. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.load.parameters import shortened
from mlscope.load.scenarios import scenario_named
from mlscope.manifests.constraints import version_order
from schemas.manifest import ScenarioManifest

_WINDOW_NS = 2_000_000_000
_MOST_MARKS = 200
_SAMPLES = 1000
_ROWS = 4
_BLOCKS = 12
_RESULT = re.compile(r"\s*Final performance result is: (.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A schedule: due times of an open loop, or blocks of a closed one, as shares of the width.

    `marks` are due times; `blocks` are rows of queries in flight, each (start, width).
    """

    marks: Sequence[float] = ()
    blocks: Sequence[Sequence[tuple[float, float]]] = ()
    caption: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """A scenario: what it does, its default parameters, the result it gives, its schedule."""

    manifest: ScenarioManifest
    description: str
    result: str
    parameters: str
    drawing: Drawing | None


@dataclass(frozen=True, slots=True)
class ScenariosView:
    """All scenarios of the catalog."""

    rows: Sequence[ScenarioRow]
    template: ClassVar[str] = "scenarios.html"
    title: ClassVar[str] = "Scenarios"


def drawing_of(manifest: ScenarioManifest) -> Drawing | None:
    """Return the schedule of a scenario with its default parameters; None if it is not known here.

    An open loop's first two seconds are true due times, of its first queries if there are many. How
    long a query of a closed loop takes is the model's: its blocks show the order alone.
    """
    # A load may have millions of queries, and whoever may look has the page drawn.
    parameters = shortened(manifest.parameters, _MOST_MARKS)
    try:
        load = scenario_named(manifest.name)(parameters, 1, _SAMPLES)
    except Exception:  # noqa: BLE001 (also another package's: the page shows the others)
        return None
    if load.due_ns is None:
        return _closed_loop(load.concurrency)
    window_ns = min(_WINDOW_NS, int(load.due_ns[-1]) + 1)
    due_ns = load.due_ns[load.due_ns < window_ns]
    caption = f"Due times of the first {window_ns / 1e9:.3g} s: {len(due_ns)} queries"
    return Drawing(marks=[float(time_ns) / window_ns for time_ns in due_ns], caption=caption)


def _closed_loop(concurrency: int) -> Drawing:
    """Return the order of queries of which `concurrency` are in flight at a time."""
    # Queries of a row are back to back; rows are shifted so that they take turns.
    rows, width = min(concurrency, _ROWS), 1 / _BLOCKS
    starts = [[(n + row / rows) * width for n in range(_BLOCKS)] for row in range(rows)]
    return Drawing(
        blocks=[
            [(start, width * 0.92) for start in of_row if start + width <= 1.0001]
            for of_row in starts
        ],
        caption="Each query is issued when one before it is answered"
        + (f", {concurrency} at a time" if concurrency > 1 else ""),
    )


def scenarios_view(
    scenarios: Sequence[ScenarioManifest],
    draw: Callable[[ScenarioManifest], Drawing | None] = drawing_of,
) -> ScenariosView:
    """Return the newest version of each scenario, by name, drawn by `draw`."""
    by_version = sorted(scenarios, key=lambda manifest: version_order(manifest.version))
    newest = {manifest.name: manifest for manifest in by_version}
    rows = []
    for _, manifest in sorted(newest.items()):
        result = _RESULT.search(manifest.description)
        rows.append(
            ScenarioRow(
                manifest,
                _RESULT.sub("", manifest.description),
                result[1] if result else "",
                ",".join(f"{name}={value}" for name, value in manifest.parameters.items()),
                draw(manifest),
            )
        )
    return ScenariosView(rows)
