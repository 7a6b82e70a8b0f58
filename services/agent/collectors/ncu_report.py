"""Nsight Compute's CSV (`--csv --page raw`) to kernels with counters. Pure.

The first row names the columns, the second their units; the program's own output and lines that
begin with `==` come between. Numbers have thousands separators. Each kernel carries the NVTX
ranges that were open at its launch, outermost first.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from services.agent.collectors.errors import ReportUnreadable

_FIRST = '"ID",'
_RANGES = "Push/Pop_Range"
_RANGE = re.compile(r'"([^"]*)"')
_RANGE_FIELDS = 6
#: what names of metrics have, and no other column's
_MARK = "__"
_NEEDED = ("ID", "Kernel Name", "Stream", "Device")
_PREFIXES: Mapping[str, float] = MappingProxyType({"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12})
_TIMES: Mapping[str, float] = MappingProxyType(
    {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
)
_SCALED = re.compile(r"([KMGT])(byte|inst|hz)(/.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CountedKernel:
    """One kernel of a replay and what was counted of it, in base units (bytes, ns, %)."""

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
        """Return the innermost range: the layer's qualified name; '' outside of any."""
        return self.ranges[-1] if self.ranges else ""


def kernels_of(lines: Iterable[str], metrics: Sequence[str]) -> list[CountedKernel]:
    """Return the kernels of a report with the metrics asked for, in order of their launch.

    Where one stands for several (`group:`, `breakdown:`, `regex:`) every metric that is there is
    taken. What the tool did not count for a kernel is absent there. Raises ReportUnreadable: no
    table, a row cut short, no such column.
    """
    rows = csv.reader(_table(lines))
    names = next(rows, None)
    units = next(rows, None)
    if names is None or units is None or len(names) != len(units):
        raise ReportUnreadable("holds no table of kernels")
    columns = {name: place for place, name in enumerate(names)}
    if missing := [name for name in _NEEDED if name not in columns]:
        raise ReportUnreadable(f"has no column {missing[0]}")
    ranges = next((place for name, place in columns.items() if _RANGES in name), -1)
    taken = [each for each in metrics if each in columns]
    if any(is_several(each) for each in metrics):
        taken += [each for each in columns if _MARK in each and "attribute" not in each]
    layout = _Layout(columns, units, ranges, tuple(dict.fromkeys(taken)))
    return [layout.kernel(row) for row in rows]


def is_several(metric: str) -> bool:
    """Whether a metric asked for stands for others, whose names the report has."""
    return metric.startswith(("group:", "breakdown:", "regex:"))


@dataclass(frozen=True, slots=True)
class _Layout:
    columns: Mapping[str, int]
    units: Sequence[str]
    ranges: int
    metrics: tuple[str, ...]

    def kernel(self, row: Sequence[str]) -> CountedKernel:
        if len(row) != len(self.units):
            raise ReportUnreadable(
                f"is cut short: a row has {len(row)} of {len(self.units)} values"
            )
        counted = ((name, self._value(row, name)) for name in self.metrics)
        return CountedKernel(
            launch_index=int(self._text(row, "ID")),
            name=self._text(row, "Kernel Name"),
            ranges=ranges_of(row[self.ranges]) if self.ranges >= 0 else (),
            device=_whole(self._text(row, "Device")),
            stream=_whole(self._text(row, "Stream")),
            grid=_sizes(self._text(row, "Grid Size")),
            block=_sizes(self._text(row, "Block Size")),
            counters={name: value for name, value in counted if value is not None},
        )

    def _text(self, row: Sequence[str], name: str) -> str:
        place = self.columns.get(name, -1)
        return row[place] if place >= 0 else ""

    def _value(self, row: Sequence[str], name: str) -> float | None:
        place = self.columns[name]
        try:
            value = float(row[place].replace(",", ""))
        except ValueError:
            return None  # `n/a`, `nan (…)`: not counted
        return value * scale_of(self.units[place])


def scale_of(unit: str) -> float:
    """Return what a unit is in base ones: ncu scales where it is not told to leave it."""
    if found := _SCALED.fullmatch(unit):
        return _PREFIXES[found.group(1).lower()]
    return _TIMES.get(unit, 1.0)


def ranges_of(cell: str) -> tuple[str, ...]:
    """Return the NVTX push/pop ranges of a cell, outermost first.

    A range is `"<domain>:text:` and six further fields, split by colons; its text may have some.
    """
    found = []
    for text in _RANGE.findall(cell):
        _, _, rest = text.partition(":")
        found.append(rest.rsplit(":", _RANGE_FIELDS)[0])
    return tuple(found)


def _table(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the CSV table, from its names on; other talk is left out."""
    is_table = False
    for line in lines:
        is_table = is_table or line.startswith(_FIRST)
        if is_table and line.startswith('"'):
            yield line


def _whole(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else -1


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", text))
