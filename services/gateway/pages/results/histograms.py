"""How the latencies of each load are spread: bars that lead to their slowest query. Pure.

Bars of one width stand for buckets of equal ratio. The template draws them as SVG in the page's own
HTML; places along the axis are percent of its width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from mlscope.counts import many
from mlscope.quantities import shown
from mlscope.statistics.latency_buckets import bounds_ns
from schemas.analysis import Table
from services.gateway.pages.results.cells import Cells, rows_of
from services.gateway.pages.results.picture import Tick, of_loads
from services.gateway.pages.results.tiles import load_text

MOST_HISTOGRAMS = 6
_END_SHARE = 0.38
"""What a label at an end and half of one in the middle take of the axis, at the least width."""
_LEAST_HEIGHT = 2.0
"""Percent: a single query of many is still seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bucket with queries, from its row: its place among all, its height in percent of the most.

    `trace` is the address of the run's trace, '' without one.
    """

    row: Cells
    place: int
    height: float
    trace: str

    @property
    def address(self) -> str:
        """Where the trace shows its slowest query, '' where there is none."""
        if not self.trace:
            return ""
        return f"{self.trace}?run={quote(str(self.row['run']))}&query={self.row['slowest_query']}"

    @property
    def slowest(self) -> str:
        """Its slowest query in words."""
        return f"query {self.row['slowest_query']}, {shown(self.row['slowest'], 'ns')}"

    @property
    def text(self) -> str:
        """The bar in words, for who points at it."""
        begins, ends = (shown(self.row[name], "ns") for name in ("begins", "ends"))
        share = shown(self.row["cumulative_share"], "share")
        queries = many(int(self.row["count"]), "query")
        text = f"{begins} to {ends}: {queries}; {share} are at least as fast"
        return f"{text}; the slowest is {self.slowest}"


@dataclass(frozen=True, slots=True)
class Histogram:
    """The latencies of one load; `first` is the number of its first bucket.

    `places` is how many buckets there are, also empty ones; `fullest` the queries of the fullest.
    """

    run: str
    label: str
    text: str
    bars: Sequence[Bar]
    first: int
    places: int
    fullest: int

    @property
    def curve(self) -> str:
        """The distribution function as an SVG path, 100 high and `places` wide."""
        path, height = "M0,100", 100.0
        for bar in self.bars:
            after = round(100 * (1 - float(bar.row["cumulative_share"])), 2)
            path += f"L{bar.place},{height}L{bar.place + 1},{after}"
            height = after
        return path

    @property
    def ticks(self) -> list[Tick]:
        """Where the first bucket begins and the last ends, and the middle if it has room."""
        middle = self.places // 2
        inner = [middle] if middle >= _END_SHARE * self.places else []
        return [
            Tick(round(100 * place / self.places, 2), shown(bounds_ns(self.first + place)[0], "ns"))
            for place in [0, *inner, self.places]
        ]


def histograms_of(tables: Mapping[str, Table], traces: Mapping[str, str]) -> list[Histogram]:
    """Return the histogram of each load, of the run at its shallowest level.

    `tables` has `latency_histogram` where there is any; `traces` the addresses of the traces of
    runs, those that have one.
    """
    rows = rows_of(tables, "latency_histogram")
    runs = [str(row["run"]) for row in of_loads(rows)]
    by_run: dict[str, list[Cells]] = {run: [] for run in runs}
    for row in rows:
        by_run.get(str(row["run"]), []).append(row)
    return [histogram_of(run, by_run[run], traces.get(run, "")) for run in runs]


def histogram_of(run: str, rows: Sequence[Cells], trace: str) -> Histogram:
    """Return the histogram of a `run` from its `rows`; `trace` is the address of its trace."""
    first, last = int(rows[0]["bucket"]), int(rows[-1]["bucket"])
    counts = [int(row["count"]) for row in rows]
    highest = max(counts)
    bars = [
        Bar(
            row=row,
            place=int(row["bucket"]) - first,
            height=max(_LEAST_HEIGHT, round(100 * count / highest, 2)),
            trace=trace,
        )
        for row, count in zip(rows, counts, strict=True)
    ]
    label = load_text(rows[0])
    begins, ends = (shown(end, "ns") for end in (rows[0]["begins"], rows[-1]["ends"]))
    text = f"{label}: {many(sum(counts), 'query')} from {begins} to {ends}"
    return Histogram(run, label, text, bars, first, last - first + 1, highest)
