"""The picture at the head of an evaluation's page: where its marks stand. Pure.

The template draws it as SVG in the page's own HTML, so that it is there with the first byte. Places
along an axis are percent of its width: the picture fits every window without scaling its texts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.quantities import shown
from schemas.analysis import Table
from services.gateway.pages.colours import SERIES
from services.gateway.pages.headlines import Figure
from services.gateway.pages.results.cells import Cells, figure_in, rows_of, with_value
from services.gateway.pages.results.tiles import load_text

MOST_LANES = 10
_PERCENTILES = (("p50", "median"), ("p90", "p90"), ("p99", "p99"))
_LOGARITHMIC_FROM = 8.0
"""A ratio of the ends from which on an axis is logarithmic."""
_LEVELS = ("model", "framework", "system", "library", "hardware")
_STEPS = (1.0, 2.0, 5.0)
_RATE_HEIGHT_PX = 170.0
_RATE_TOP_PX = 10.0
_OPEN_PERCENT = 7.0
_NARROW_TEXT_PERCENT = 18.0
"""How much of the axis the text of a tick takes on a telephone."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An estimate on an axis, in percent; an end that is not known is None."""

    at: float
    low: float | None
    high: float | None
    name: str
    colour: str
    figure: Figure

    @property
    def open_to(self) -> float:
        """Where the arrow ends that stands for an upper end that is not known."""
        return min(100.0, self.at + _OPEN_PERCENT)

    @property
    def text(self) -> str:
        """The figure in words, for who points at it or hears it."""
        return f"{self.name} {self.figure.text} ({self.figure.interval})"


@dataclass(frozen=True, slots=True)
class Lane:
    """The marks of one load."""

    label: str
    marks: Sequence[Mark]

    @property
    def text(self) -> str:
        """The lane in words."""
        return f"{self.label}: {', '.join(mark.text for mark in self.marks)}"


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across an axis, in percent (or pixels of a height), and its text.

    On a narrow screen there is no room for the text of a line that `is_crowded`.
    """

    at: float
    text: str
    is_crowded: bool = False


@dataclass(frozen=True, slots=True)
class LatencyPicture:
    """Percentiles of each load on one axis; `left_out` loads have no room."""

    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    is_logarithmic: bool
    left_out: int

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The percentiles and their colours."""
        marks = [mark for lane in self.lanes for mark in lane.marks]
        return list(dict.fromkeys((mark.name, mark.colour) for mark in marks))


@dataclass(frozen=True, slots=True)
class RatePoint:
    """A throughput: `x` in percent, `y` and its interval in pixels from the top."""

    x: float
    y: float
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Throughput of one kind of load by batch size."""

    name: str
    colour: str
    points: Sequence[RatePoint]


@dataclass(frozen=True, slots=True)
class RatePicture:
    """Throughput by batch size, its axes from zero."""

    series: Sequence[RateSeries]
    batches: Sequence[Tick]
    rates: Sequence[Tick]
    height: float = _RATE_HEIGHT_PX


class _Axis:
    """Places values between `lowest` and `highest` in percent."""

    def __init__(self, lowest: float, highest: float) -> None:
        self.is_logarithmic = lowest > 0 and highest / lowest >= _LOGARITHMIC_FROM
        self.lowest = lowest if self.is_logarithmic else 0.0
        self.highest = highest

    def place(self, value: float) -> float:
        if self.is_logarithmic:
            shift = math.log(max(value, self.lowest) / self.lowest)
            share = shift / math.log(self.highest / self.lowest)
        else:
            share = value / self.highest if self.highest else 0.0
        return round(2.0 + 94.0 * share, 2)

    def ticks(self, unit: str) -> list[Tick]:
        values = self._decades() if self.is_logarithmic else nice_steps(self.highest)
        ticks: list[Tick] = []
        free_from = 0.0
        for value in values:
            at, text = self.place(value), shown(value, unit) if value else "0"
            ticks.append(Tick(at, text, is_crowded=at < free_from))
            free_from = free_from if at < free_from else at + _NARROW_TEXT_PERCENT
        return ticks

    def _decades(self) -> list[float]:
        first, last = (math.floor(math.log10(end)) for end in (self.lowest, self.highest))
        powers = [10.0**power for power in range(first, last + 1)]
        values = [step * power for power in powers for step in _STEPS]
        inside = [value for value in values if self.lowest <= value <= self.highest]
        return inside if len(inside) <= 6 else [v for v in inside if v in powers]


def nice_steps(highest: float) -> list[float]:
    """Return three to six round values from 0 to `highest`."""
    if highest <= 0:
        return [0.0]
    raw = highest / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((size * power for size in (*_STEPS, 10.0) if size * power >= raw), raw)
    return [step * number for number in range(int(highest / step) + 1)]


def latency_picture(tables: Mapping[str, Table]) -> LatencyPicture | None:
    """Return the percentiles of each load, at its shallowest level; None where none is known."""
    rows = of_loads(with_value(rows_of(tables, "latency"), "median"))
    shown_rows = rows[:MOST_LANES]
    values = [
        float(row[f"{column}{end}"])
        for row in shown_rows
        for _, column in _PERCENTILES
        for end in ("", "_low", "_high")
        if isinstance(row.get(f"{column}{end}"), int | float)
    ]
    if not values or max(values) <= 0:
        return None
    axis = _Axis(min(values), max(values))
    lanes = [Lane(load_text(row), _marks(tables["latency"], row, axis)) for row in shown_rows]
    return LatencyPicture(lanes, axis.ticks("ns"), axis.is_logarithmic, len(rows) - len(lanes))


def of_loads(rows: Sequence[Cells]) -> list[Cells]:
    """Return of each load the row of the shallowest level, in the order of the rows."""
    chosen: dict[tuple[Any, ...], Cells] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("agent", "scenario", "batch_size"))
        if key not in chosen or _depth(row) < _depth(chosen[key]):
            chosen[key] = row
    return list(chosen.values())


def _depth(row: Cells) -> int:
    level = row.get("level")
    return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)


def _marks(table: Table, row: Cells, axis: _Axis) -> list[Mark]:
    marks = []
    for place, (name, column) in enumerate(_PERCENTILES):
        figure = figure_in(table, row, column)
        if figure is None:
            continue
        low, high = (row.get(f"{column}{end}") for end in ("_low", "_high"))
        marks.append(
            Mark(
                at=axis.place(float(row[column])),
                low=None if low is None else axis.place(low),
                high=None if high is None else axis.place(high),
                name=name,
                colour=SERIES[place],
                figure=figure,
            )
        )
    return marks


def rate_picture(tables: Mapping[str, Table]) -> RatePicture | None:
    """Return throughput by batch size; None with fewer than two batch sizes."""
    rows = of_loads(with_value(rows_of(tables, "throughput"), "samples_per_s"))
    sizes = sorted({int(row["batch_size"]) for row in rows if row.get("batch_size")})
    if len(sizes) < 2:
        return None
    fastest = max(float(row.get("samples_per_s_high") or row["samples_per_s"]) for row in rows)
    batches = {
        size: round(14.0 + 80.0 * place / (len(sizes) - 1), 2) for place, size in enumerate(sizes)
    }
    scenarios = list(dict.fromkeys(str(row.get("scenario", "")) for row in rows))
    series = [
        RateSeries(
            name,
            SERIES[place % len(SERIES)],
            [
                _rate_point(tables["throughput"], row, batches, fastest)
                for row in sorted(rows, key=lambda row: int(row["batch_size"]))
                if row.get("scenario") == name
            ],
        )
        for place, name in enumerate(scenarios)
    ]
    return RatePicture(
        series,
        [Tick(at, str(size)) for size, at in batches.items()],
        [Tick(_height(value, fastest), shown(value)) for value in nice_steps(fastest)],
    )


def _rate_point(
    table: Table, row: Cells, batches: Mapping[int, float], fastest: float
) -> RatePoint:
    figure = figure_in(table, row, "samples_per_s")
    low, high = (row.get(f"samples_per_s{end}") for end in ("_low", "_high"))
    text = f"{figure.text} ({figure.interval})" if figure else ""
    return RatePoint(
        x=batches[int(row["batch_size"])],
        y=_height(float(row["samples_per_s"]), fastest),
        low=None if low is None else _height(low, fastest),
        high=None if high is None else _height(high, fastest),
        text=f"{load_text(row)}: {text}",
    )


def _height(value: float, fastest: float) -> float:
    """Return the pixels from the top at which a rate stands."""
    room = _RATE_HEIGHT_PX - _RATE_TOP_PX
    return round(_RATE_HEIGHT_PX - room * min(1.0, max(0.0, value) / fastest), 1)
