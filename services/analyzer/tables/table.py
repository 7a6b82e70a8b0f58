"""How a table is made: columns by kind, an estimate with its interval, rows from maps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlscope.counts import many, verb
from mlscope.statistics import (
    Interval,
    Resampling,
    percentile,
    percentile_interval,
    trimmed_mean,
    trimmed_mean_interval,
)
from schemas.analysis import Column, Table
from schemas.level import Level
from schemas.run import QUERIES_GUESSED
from services.analyzer.frames import Frames, RunRow
from services.analyzer.noise import noise_of

Values = npt.ArrayLike
Row = Mapping[str, Any]


def resampling(count: int) -> Resampling:
    """Return how `count` values are resampled: there are many bootstraps, one a layer and run."""
    return Resampling(resamples=500 if count <= 1000 else 100)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A table's name, title and columns, where its formula is from, and the function making it.

    `id` is the papers' number for it; `chart` its Vega-Lite specification, fields are columns.
    """

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    compute: Callable[[Frames], Table]
    id: str = ""
    chart: Mapping[str, Any] | None = None


class Described(Protocol):
    """What a table is made by: an analysis, or a comparison of evaluations."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def title(self) -> str:
        """What people read."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""

    @property
    def id(self) -> str:
        """The papers' number for it."""

    @property
    def chart(self) -> Mapping[str, Any] | None:
        """Its chart."""


def text(name: str, description: str) -> Column:
    """Return a column of texts."""
    return Column(name=name, type="text", description=description)


def whole(name: str, description: str, unit: str = "1") -> Column:
    """Return a column of whole numbers."""
    return Column(name=name, type="int", unit=unit, description=description)


def real(name: str, description: str, unit: str = "ns") -> Column:
    """Return a column of real numbers."""
    return Column(name=name, type="float", unit=unit, description=description)


def truth(name: str, description: str) -> Column:
    """Return a column of yes and no."""
    return Column(name=name, type="bool", description=description)


def estimate(name: str, description: str, unit: str = "ns") -> tuple[Column, Column, Column]:
    """Return the columns of an estimate: itself and its interval at 95 %."""
    return (
        real(name, description, unit),
        real(f"{name}_low", f"Lower end of its 95 % interval ({name}).", unit),
        real(f"{name}_high", f"Upper end of its 95 % interval ({name}).", unit),
    )


RUN_COLUMNS = (
    text("run", "The run."),
    text("scenario", "How its queries arrived."),
    whole("batch_size", "Samples in a query."),
    text("level", "The deepest trace level of the run."),
)
"""What every row of a run begins with."""


def run_cells(row: RunRow) -> dict[str, Any]:
    """Return the cells of `RUN_COLUMNS`."""
    return {
        "run": row.run,
        "scenario": row.scenario,
        "batch_size": row.batch_size,
        "level": row.level_name,
    }


def with_interval(name: str, value: float | None, interval: Interval | None) -> dict[str, Any]:
    """Return an estimate's three cells."""
    return {
        name: value,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def trimmed_cells(name: str, values: Any) -> dict[str, Any]:
    """Return the trimmed mean (20 % off each end) of values, with its interval."""
    if len(values) == 0:
        return with_interval(name, None, None)
    interval = trimmed_mean_interval(values, resampling=resampling(len(values)))
    return with_interval(name, trimmed_mean(values), interval)


def percentile_cells(name: str, values: Any, p: float) -> dict[str, Any]:
    """Return a nearest-rank percentile of values, with its order-statistic interval.

    The median of an even count is the mean of the two in the middle, as everywhere.
    """
    if len(values) == 0:
        return with_interval(name, None, None)
    value = float(np.median(values)) if p == 0.5 else percentile(values, p)
    return with_interval(name, value, percentile_interval(values, p))


def share(part: float | None, whole_: float | None) -> float | None:
    """Return part / whole, or None where there is none."""
    return part / whole_ if part is not None and whole_ else None


def ranked(rows: Iterable[Row], name: str) -> list[dict[str, Any]]:
    """Return rows by their `time`, most first; `name` is its share of the rows' sum.

    The shares of a run's rows add up to 1: of what was traced, whatever was not.
    """
    falling = sorted(rows, key=lambda row: -row["time"])
    total = sum(row["time"] for row in falling)
    return [{**row, name: share(row["time"], total)} for row in falling]


def doubts(frames: Frames) -> list[str]:
    """Return why figures are less than they seem: rows not read, bad ends, lost batches, noise."""
    notes = list(frames.caveats)
    for row in frames.runs:
        notes += [f"{row.run}: {note}" for note in row.caveats if note.startswith(QUERIES_GUESSED)]
        if row.end != "completed":
            notes.append(f"{row.run} ended {row.end}: its figures are over the rows there are")
        if row.dropped_batches:
            lost = many(row.dropped_batches, "batch")
            was = verb(row.dropped_batches, "was", "were")
            notes.append(f"{row.run}: {lost} {was} lost at the agent")
    return [
        *notes,
        *(f"{run.row.run}: {note}" for run in frames.measured for note in noise_of(run)),
    ]


def trace_doubts(frames: Frames) -> list[str]:
    """Return `doubts`, and which runs could not look as deep as was asked.

    What others of its runs looked at is missing in none: counters have a process of their own.
    """
    is_counted = any(row.variant == "counters" and row.end == "completed" for row in frames.runs)
    whole = [is_counted and row.level_asked == Level.FULL for row in frames.runs]
    shallow = [
        f"{row.run}: {row.level_note}"
        for row, is_whole in zip(frames.runs, whole, strict=True)
        if row.level_note and row.variant != "counters"
        if not (is_whole and row.level == Level.SYSTEM)
    ]
    return [*doubts(frames), *shallow]


def made(
    analysis: Described, rows: Iterable[Row], verdict: str, caveats: Sequence[str] = ()
) -> Table:
    """Return a table; a row must have exactly the analysis' columns."""
    names = [column.name for column in analysis.columns]
    tuples = []
    for row in rows:
        assert row.keys() == set(names), f"{analysis.name}: {row.keys() ^ set(names)}"
        tuples.append(tuple(row[name] for name in names))
    return Table(
        name=analysis.name,
        title=analysis.title,
        columns=analysis.columns,
        rows=tuple(tuples),
        verdict=verdict,
        caveats=tuple(dict.fromkeys(caveats)),
        id=analysis.id,
        chart=dict(analysis.chart) if analysis.chart else None,
    )


def in_time(value_ns: float | None) -> str:
    """Return a time for a sentence, three digits that count, in the unit that tables show it in."""
    if value_ns is None:
        return "no time"
    size = abs(value_ns)
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
    scale, unit = next((each for each in units if size >= 0.9995 * each[0]), (1.0, "ns"))
    return f"{value_ns / scale:.3g} {unit}"


def in_percent(value: float | None) -> str:
    """Return a share for a sentence."""
    return "an unknown share" if value is None else f"{value:.1%}"
