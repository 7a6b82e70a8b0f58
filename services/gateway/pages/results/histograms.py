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
_TICKS = 3
_LEAST_HEIGHT = 2.0
"""Percent: a single query of many is still seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bucket with queries: its place among all, its height in percent of the highest bar's.

    `address` leads to the trace of its slowest query, '' where there is none.
    """

    place: int
    height: float
    text: str
    address: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """The latencies of one load; `places` is how many buckets there are, also empty ones."""

    run: str
    label: str
    text: str
    places: int
    bars: Sequence[Bar]
    #: the share of queries up to the end of each bucket, as an SVG path; 100 high, `places` wide
    curve: str
    ticks: Sequence[Tick]
    most: int
    slowest: str
    slowest_address: str


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
    total, most = (reduce(int(row["count"]) for row in rows) for reduce in (sum, max))
    places = last - first + 1
    bars = [
        Bar(
            place=int(row["bucket"]) - first,
            height=max(_LEAST_HEIGHT, round(100 * int(row["count"]) / most, 2)),
            text=_bar_text(row),
            address=_query_address(trace, row),
        )
        for row in rows
    ]
    label = load_text(rows[0])
    begins, ends = (shown(end, "ns") for end in (rows[0]["begins"], rows[-1]["ends"]))
    return Histogram(
        run=run,
        label=label,
        text=f"{label}: {many(total, 'query')} from {begins} to {ends}",
        places=places,
        bars=bars,
        curve=_curve(rows, first),
        ticks=_ticks(first, places),
        most=most,
        slowest=f"query {rows[-1]['slowest_query']}, {shown(rows[-1]['slowest'], 'ns')}",
        slowest_address=bars[-1].address,
    )


def _query_address(trace: str, row: Cells) -> str:
    if not trace:
        return ""
    return f"{trace}?run={quote(str(row['run']))}&query={row['slowest_query']}"


def _bar_text(row: Cells) -> str:
    begins, ends, slowest = (shown(row[name], "ns") for name in ("begins", "ends", "slowest"))
    share = shown(row["cumulative_share"], "share")
    queries = many(int(row["count"]), "query")
    slowest = f"the slowest is query {row['slowest_query']}, {slowest}"
    return f"{begins} to {ends}: {queries}; {share} are as fast; {slowest}"


def _curve(rows: Sequence[Cells], first: int) -> str:
    """Return the path of the distribution function: it rises within the buckets with queries."""
    path, height = "M0,100", 100.0
    for row in rows:
        place = int(row["bucket"]) - first
        after = round(100 * (1 - float(row["cumulative_share"])), 2)
        path += f"L{place},{height}L{place + 1},{after}"
        height = after
    return path


def _ticks(first: int, places: int) -> list[Tick]:
    """Return where buckets begin, about three of them, and where the last ends."""
    step = max(1, -(-places // _TICKS))
    inner = [place for place in range(0, places, step) if places - place > step / 2]
    return [
        Tick(round(100 * place / places, 2), shown(bounds_ns(first + place)[0], "ns"))
        for place in [*inner, places]
    ]
