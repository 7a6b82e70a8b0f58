"""Nsight Compute's CSV (`--csv --page raw`) as kernels with counters. Pure.

The first row names the columns, the second their units; the program's own output and lines that
begin with `==` may come in between. Numbers have thousands separators. Each kernel has the NVTX
ranges that were open at its launch, outermost first.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from types import MappingProxyType

from mlscope.importing.errors import ReportUnreadable

FIRST_COLUMN = '"ID",'
"""How the line with the names of the columns begins."""

_RANGES = "Push/Pop_Range"
_RANGE = re.compile(r'"([^"]*)"')
_RANGE_FIELDS = 6
_METRIC_MARK = "__"
_REQUIRED = ("ID", "Kernel Name", "Stream", "Device")
_PREFIXES: Mapping[str, float] = MappingProxyType({"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12})
_TIMES: Mapping[str, float] = MappingProxyType(
    {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
)
_SCALED = re.compile(r"([KMGT])(byte|inst|hz)(/.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CountedKernel:
    """One kernel of a replay and its counters, in base units (bytes, ns, %)."""

    launch_index: int
    name: str
    #: open NVTX ranges, outermost first
    ranges: tuple[str, ...]
    device: int
    stream: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    counters: Mapping[str, float]

    @property
    def layer(self) -> str:
        """Return the innermost range, which is the layer's qualified name; '' outside any range."""
        return self.ranges[-1] if self.ranges else ""


def kernels_of(lines: Iterable[str], metrics: Sequence[str]) -> list[CountedKernel]:
    """Return the kernels of a report, in order of their launch.

    `lines`: of the report. `metrics`: the counters to read; where one stands for several (`group:`,
    `breakdown:`, `regex:`), every metric of the report is read. A metric that the tool did not
    count for a kernel is absent there. Raises ReportUnreadable: no table, a row cut short, or a
    required column missing.
    """
    from_header = dropwhile(lambda line: not line.startswith(FIRST_COLUMN), lines)
    rows = csv.reader(line for line in from_header if line.startswith('"'))
    names = next(rows, None)
    units = next(rows, None)
    if names is None or units is None or len(names) != len(units):
        raise ReportUnreadable("holds no table of kernels")
    columns = {name: place for place, name in enumerate(names)}
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise ReportUnreadable(f"has no column {missing[0]}")
    ranges = next((place for name, place in columns.items() if _RANGES in name), -1)
    counters = [metric for metric in metrics if metric in columns]
    if any(map(is_several, metrics)):
        counters += filter(is_metric, columns)
    layout = _Layout(columns, units, ranges, tuple(dict.fromkeys(counters)))
    return [layout.kernel(row) for row in rows]


def is_several(metric: str) -> bool:
    """Say whether a requested metric stands for several, whose names the report has."""
    return metric.startswith(("group:", "breakdown:", "regex:"))


def is_metric(column: str) -> bool:
    """Say whether a column of the report is a metric."""
    return _METRIC_MARK in column and "attribute" not in column


@dataclass(frozen=True, slots=True)
class _Layout:
    """The places and units of a report's columns."""

    columns: Mapping[str, int]
    units: Sequence[str]
    ranges: int
    metrics: tuple[str, ...]

    def kernel(self, row: Sequence[str]) -> CountedKernel:
        """Return the kernel of a row. Raises ReportUnreadable."""
        if len(row) != len(self.units):
            raise ReportUnreadable(
                f"is cut short: a row has {len(row)} of {len(self.units)} values"
            )
        counters: dict[str, float] = {}
        for name in self.metrics:
            place = self.columns[name]
            with suppress(ValueError):  # `n/a`, `nan (…)`: not counted
                value = float(row[place].replace(",", ""))
                counters[name] = value * scale_of(self.units[place])
        return CountedKernel(
            launch_index=int(self._text(row, "ID")),
            name=self._text(row, "Kernel Name"),
            ranges=ranges_of(row[self.ranges]) if self.ranges >= 0 else (),
            device=_integer(self._text(row, "Device")),
            stream=_integer(self._text(row, "Stream")),
            grid=_sizes(self._text(row, "Grid Size")),
            block=_sizes(self._text(row, "Block Size")),
            counters=counters,
        )

    def _text(self, row: Sequence[str], name: str) -> str:
        place = self.columns.get(name, -1)
        return row[place] if place >= 0 else ""


def scale_of(unit: str) -> float:
    """Return the factor from a unit to its base unit; ncu scales values unless told otherwise."""
    if match := _SCALED.fullmatch(unit):
        return _PREFIXES[match.group(1).lower()]
    return _TIMES.get(unit, 1.0)


def ranges_of(cell: str) -> tuple[str, ...]:
    """Return the NVTX push/pop ranges of a cell, outermost first.

    A range is `"<domain>:text:` and six further fields, split by colons; its text may contain some.
    """
    ranges = (text.partition(":")[2] for text in _RANGE.findall(cell))
    return tuple(fields.rsplit(":", _RANGE_FIELDS)[0] for fields in ranges)


def _integer(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else -1


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))
