"""How well a run's result is known while it is measured: for stop rules `of: result`. Pure.

The figures are those of the analyzer's tables `latency` and `throughput`, with intervals
that need no resampling.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mlscope.load.load import Load
from mlscope.statistics import (
    Interval,
    minimum_count,
    percentile,
    percentile_interval,
    percentile_widening,
    throughput,
    trimmed_mean,
    trimmed_widening,
    widened,
    winsorised_interval,
)

_BATCHED = "batched"
_NO_ANSWER = "no query was answered"
Ns = npt.NDArray[np.int64]


@dataclass(slots=True)
class Answers:
    """The answered queries of a run: a list for each block, times in ns."""

    latency_ns: list[list[int]] = field(default_factory=list)
    issued_ns: list[list[int]] = field(default_factory=list)
    ended_ns: list[list[int]] = field(default_factory=list)

    def begin_block(self) -> None:
        """Begin the next block."""
        for blocks in (self.latency_ns, self.issued_ns, self.ended_ns):
            blocks.append([])

    def add(self, due_ns: int, issued_ns: int, ended_ns: int) -> None:
        """Add a query that was due, issued and ended at these times.

        `due_ns` is below 0 in a closed loop; then the latency begins at `issued_ns`. It ends at
        `ended_ns`.
        """
        self.latency_ns[-1].append(ended_ns - (due_ns if due_ns >= 0 else issued_ns))
        self.issued_ns[-1].append(issued_ns)
        self.ended_ns[-1].append(ended_ns)

    @property
    def latencies(self) -> Ns:
        """The latencies of all blocks."""
        return np.array([ns for block in self.latency_ns for ns in block], np.int64)

    @property
    def blocks(self) -> Ns:
        """The block of each of them."""
        sizes = [len(block) for block in self.latency_ns]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def contiguous_ends(self) -> Ns:
        """When the queries ended, as if each block began where the one before ended."""
        ends: list[Ns] = [np.zeros(0, np.int64)]
        before_ns = 0
        for issued, ended in zip(self.issued_ns, self.ended_ns, strict=True):
            if issued:
                ends.append(np.array(ended, np.int64) - min(issued) + before_ns)
                before_ns = int(ends[-1].max())
        return np.concatenate(ends)


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    value: float
    interval: Interval
    #: the fewest queries that certify it; 0 for a figure that is no percentile
    needed: int = 0

    @property
    def relative_reach(self) -> float:
        """How far its interval reaches to its farther side, as a share of its value."""
        low, high = self.interval.low, self.interval.high
        if low is None or high is None or self.value <= 0:
            return math.inf
        return max(high - self.value, self.value - low) / self.value


def shortfall(load: Load, answers: Answers, width: float) -> str:
    """Return why a run's result is not known well enough yet, '' where it is.

    The result is that of its `load`: of an open loop the 99th percentile, of `batched` the
    throughput, else the trimmed mean and the 90th percentile. Each of its figures needs a 95%
    interval that reaches at most half of `width` to each side, and a percentile as many
    `answers` as certify it.
    """
    return _shortfall(_figures(load, answers), sum(map(len, answers.latency_ns)), width)


def open_loop_shortfall(latency_ns: Ns, blocks: Ns, width: float) -> str:
    """Return why the result of an open loop is not known well enough yet, '' where it is.

    `latency_ns` has the latency of each answered query from its due time, `blocks` the block of
    each; `width` as in `shortfall`.
    """
    return _shortfall(_open_loop_figures(latency_ns, blocks), len(latency_ns), width)


def opening_shortfall(opening_ns: Ns, width: float) -> str:
    """Return why the time to open a model is not known well enough yet, '' where it is.

    `opening_ns` has the time of each opening; `width` as in `shortfall`.
    """
    if not len(opening_ns):
        return _NO_ANSWER
    mean = _Figure("mean", trimmed_mean(opening_ns), winsorised_interval(opening_ns))
    return _shortfall([mean], len(opening_ns), width)


def _shortfall(figures: Iterable[_Figure], count: int, width: float) -> str:
    """Return what `shortfall` does, of `figures` that are computed only with a `count` above 0."""
    if not count:
        return _NO_ANSWER
    for figure in figures:
        if count < figure.needed:
            return f"its {figure.name} needs {figure.needed} answered queries, {count} were"
        reach = figure.relative_reach
        if reach > width / 2:
            precision = (
                f"is known to within {reach:.0%} (95% interval)"
                if math.isfinite(reach)
                else "has no interval"
            )
            return f"its {figure.name} {precision}; the goal is within {width / 2:.0%}"
    return ""


def _figures(load: Load, answers: Answers) -> Iterator[_Figure]:
    latencies, blocks = answers.latencies, answers.blocks
    if load.due_ns is not None:
        yield from _open_loop_figures(latencies, blocks)
    elif load.scenario == _BATCHED:
        ends = answers.contiguous_ends
        if ends.max() > 0:
            rate = throughput(0, ends, load.batch_size, blocks=blocks)
            yield _Figure("throughput", rate.rate_hz, rate.interval)
    else:
        mean, factor = trimmed_mean(latencies), trimmed_widening(latencies, blocks)
        interval = widened(winsorised_interval(latencies), mean, factor)
        yield _Figure("trimmed mean", mean, interval)
        yield _percentile_figure("90th percentile", latencies, 0.9, blocks)


def _open_loop_figures(latencies: Ns, blocks: Ns) -> Iterator[_Figure]:
    yield _percentile_figure("99th percentile", latencies, 0.99, blocks)


def _percentile_figure(name: str, latencies: Ns, p: float, blocks: Ns) -> _Figure:
    factor = percentile_widening(latencies, p, blocks)
    interval = percentile_interval(latencies, p, widening=factor)
    return _Figure(name, percentile(latencies, p), interval, minimum_count(p))
