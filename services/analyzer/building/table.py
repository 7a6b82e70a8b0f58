"""Tables from rows: typed columns, estimates with their intervals, warnings and verdicts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.counts import many, verb
from mlscope.quantities import shown
from mlscope.statistics import (
    Interval,
    percentile,
    percentile_interval,
    percentile_widening,
    trimmed_mean,
    trimmed_widening,
    widened,
    winsorised_interval,
)
from schemas.analysis import Column, Table
from schemas.level import Level
from schemas.run import ENDED_EARLY, QUERIES_GUESSED
from services.analyzer.building.noise import noise_of
from services.analyzer.frames.evaluation import Frames, Run, RunRow

LEAST_SHARE = 0.0005
"""The least share that does not round to 0.0%."""

COUNTERS = "counters"
"""The variant of a run that is replayed for hardware counters."""

Values = npt.ArrayLike
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """A table's name, title and columns, the source of its formula, and the function computing it.

    `id` is its number in the XSP papers; `chart` its Vega-Lite specification, whose fields are
    columns.
    """

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    compute: Callable[[Frames], Table]
    id: str = ""
    chart: Mapping[str, Any] | None = None


class Described(Protocol):
    """The description of a table: an analysis, or a comparison of evaluations."""

    @property
    def name(self) -> str:
        """Its name, unique among the tables."""

    @property
    def title(self) -> str:
        """Its title for people."""

    @property
    def source(self) -> str:
        """Where its formula comes from."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""

    @property
    def id(self) -> str:
        """Its number in the XSP papers, '' without one."""

    @property
    def chart(self) -> Mapping[str, Any] | None:
        """Its Vega-Lite specification, None without a chart."""


def text_column(name: str, description: str) -> Column:
    """Return a text column."""
    return Column(name=name, type="text", description=description)


def int_column(name: str, description: str, unit: str = "1") -> Column:
    """Return a column `name` of integers in `unit` (UCUM; "1" for a count).

    `description` is a sentence for people.
    """
    return Column(name=name, type="int", unit=unit, description=description)


def float_column(name: str, description: str, unit: str = "ns") -> Column:
    """Return a column `name` of floating-point numbers in `unit` (UCUM; "1" for a ratio).

    `description` is a sentence for people.
    """
    return Column(name=name, type="float", unit=unit, description=description)


def bool_column(name: str, description: str) -> Column:
    """Return a column of booleans."""
    return Column(name=name, type="bool", description=description)


def estimate_columns(
    name: str, description: str, unit: str = "ns"
) -> tuple[Column, Column, Column]:
    """Return the columns `name`, `name`_low and `name`_high: an estimate and its 95% interval.

    `description` is that of the estimate; all three are in `unit`.
    """
    return (
        float_column(name, description, unit),
        float_column(f"{name}_low", f"Lower end of its 95% interval ({name}).", unit),
        float_column(f"{name}_high", f"Upper end of its 95% interval ({name}).", unit),
    )


def columns_in(frame: pl.DataFrame, columns: Iterable[Column]) -> list[str]:
    """Return the names of those `columns` of a table that a frame has, in their order."""
    return [column.name for column in columns if column.name in frame.columns]


RUN_COLUMNS = (
    text_column("run", "Name of the run."),
    text_column("scenario", "The scenario: how queries arrived."),
    int_column("batch_size", "Samples per query."),
    text_column("level", "The deepest trace level of the run."),
)
"""The first columns of every table with a row a run."""


PREPARED_COLUMN = text_column(
    "prepared",
    "When samples were prepared: ahead of the clock, or streamed; '' where unknown. With inputs on "
    "the device, they were copied there before the clock, too.",
)


def run_cells(row: RunRow) -> dict[str, Any]:
    """Return the cells of `RUN_COLUMNS`."""
    return {
        "run": row.run,
        "scenario": row.scenario,
        "batch_size": row.batch_size,
        "level": row.level_name,
    }


def with_interval(name: str, value: float | None, interval: Interval | None) -> dict[str, Any]:
    """Return the three cells of an estimate `name`: its `value` and the ends of its `interval`."""
    return {
        name: value,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def trimmed_cells(name: str, values: Any, blocks: Any = None) -> dict[str, Any]:
    """Return the cells of the trimmed mean (20% off each end) of `values` as `name`.

    Its interval is wider where the values of `blocks`, if they are given, differ.
    """
    if len(values) == 0:
        return with_interval(name, None, None)
    interval, mean = winsorised_interval(values), trimmed_mean(values)
    factor = 1.0 if blocks is None else trimmed_widening(values, blocks)
    return with_interval(name, mean, widened(interval, mean, factor))


def percentile_cells(name: str, values: Any, p: float, blocks: Any = None) -> dict[str, Any]:
    """Return the cells of the `p` (0 to 1) quantile of `values`, by nearest rank, as `name`.

    Its interval is that of order statistics, wider where the values of `blocks`, if they are given,
    differ. The median of an even count is the mean of the two middle values.
    """
    if len(values) == 0:
        return with_interval(name, None, None)
    value = float(np.median(values)) if p == 0.5 else percentile(values, p)
    factor = 1.0 if blocks is None else percentile_widening(values, p, blocks)
    return with_interval(name, value, percentile_interval(values, p, widening=factor))


def share(part: float | None, total: float | None) -> float | None:
    """Return part / total; None where one is unknown or the total is 0."""
    return part / total if part is not None and total else None


def ranked_by_time(rows: Iterable[Row], name: str) -> list[dict[str, Any]]:
    """Return rows with a share of the summed `time` as column `name`, longest time first.

    The shares of a run's rows add up to 1: they are shares of the traced time.
    """
    falling = sorted(rows, key=lambda row: -row["time"])
    total = sum(row["time"] for row in falling)
    return [{**row, name: share(row["time"], total)} for row in falling]


def of_first_run(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the first row's run, which a verdict is about."""
    return [row for row in rows if row["run"] == rows[0]["run"]]


def run_warnings(frames: Frames) -> list[str]:
    """Return what weakens the figures: rows not read, early ends, lost batches, noise."""
    ends = [note for run in frames.measured for note in _end_notes(run)]
    return [*frames.caveats, *ends, *_noise_notes(frames)]


def trace_warnings(frames: Frames) -> list[str]:
    """Return the `run_warnings` of a table without counters, and which runs lack requested levels.

    Hardware counters have runs of their own, replays: how those ended does not matter here; with
    complete ones, a run traced to level system is complete.
    """
    replay_ends = {row.end for row in frames.runs if row.variant == COUNTERS}
    ends: list[str] = []
    shallow = []
    for run in (run for run in frames.measured if run.row.variant != COUNTERS):
        ends += _end_notes(run)
        row = run.row
        is_complete = row.level_asked == Level.FULL and row.level == Level.SYSTEM
        if row.level_note and not (is_complete and "completed" in replay_ends):
            shallow.append(f"{row.run}: {row.level_note}")
    return [*frames.caveats, *ends, *_noise_notes(frames), *shallow]


def overlap_warnings(frames: Frames) -> list[str]:
    """Return a caveat for each run whose predict calls were under way beside others."""
    return [
        f"{run.row.run}: {run.row.calls_in_flight} calls were under way at a time: predict runs "
        f"from its begin, {behind_others(run.row)}, and is longer than the model alone"
        for run in frames.measured
        if run.row.calls_in_flight > 1
    ]


def behind_others(row: RunRow) -> str:
    """Return behind how many other calls each call of a run waited; '' for none."""
    others_in_flight = row.calls_in_flight - 1
    count = "one other call" if others_in_flight == 1 else many(others_in_flight, "other call")
    return f"behind {count}" if others_in_flight else ""


def counter_warnings(frames: Frames) -> list[str]:
    """Return `trace_warnings`, and early ends and lost batches of replays for counters."""
    replays = [run for run in frames.measured if run.row.variant == COUNTERS]
    return [*trace_warnings(frames), *(note for run in replays for note in _end_notes(run))]


def _end_notes(run: Run) -> Iterator[str]:
    row = run.row
    guessed = (note for note in row.caveats if note.startswith((QUERIES_GUESSED, ENDED_EARLY)))
    yield from (f"{row.run}: {note}" for note in guessed)
    if run.cut_off_text:
        yield f"{row.run} was {run.cut_off_text}: its figures cover only these"
    elif row.end != "completed":
        yield f"{row.run} ended {row.end}: its figures cover only the stored rows"
    if row.dropped_batches:
        was = verb(row.dropped_batches, "was", "were")
        yield f"{row.run}: {many(row.dropped_batches, 'batch')} {was} lost at the agent"


def _noise_notes(frames: Frames) -> Iterator[str]:
    return (f"{run.row.run}: {note}" for run in frames.measured for note in noise_of(run))


def make_table(
    analysis: Described, rows: Iterable[Row], verdict: str, caveats: Sequence[str] = ()
) -> Table:
    """Return a table with the name, title, columns and chart of its `analysis`.

    Each of `rows` has exactly the columns of the analysis. `verdict` is the result in a sentence,
    `caveats` weaken it; repeated ones appear once.
    """
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
        source=analysis.source,
        chart=dict(analysis.chart) if analysis.chart else None,
    )


def format_time(value_ns: float | None) -> str:
    """Return a time for a sentence, as tables show it."""
    return "no time" if value_ns is None else shown(value_ns, "ns")


def format_share(value: float | None) -> str:
    """Return a share for a sentence, in percent; one that would round to 0 is under 0.1%."""
    if value is None:
        return "an unknown share"
    return "under 0.1%" if 0.0 < value < LEAST_SHARE else f"{value:.1%}"


def distinct_name(row: Row, rows: Iterable[Row], index: str = "layer", name: str = "name") -> str:
    """Return the name of a row's layer for a sentence, with its index where others have that name.

    `rows` are those that the sentence is about; `index` and `name` are the columns with a layer's
    index and its name.
    """
    of_name = {peer[index] for peer in rows if peer[name] == row[name]}
    return f"{row[name]} (index {row[index]})" if len(of_name) > 1 else str(row[name])
