"""The main figures of evaluations as texts. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.quantities import estimate_text
from schemas.analysis import Estimate, Headline
from schemas.status import EvaluationStatus

_STATISTICS: Mapping[str, str] = MappingProxyType(
    {"p99": "99th percentile", "median": "one query", "trimmed_mean": "trimmed mean"}
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its unit, the ends of its interval, and what it is."""

    text: str
    interval: str
    note: str


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """A load and its figures; one that was not measured is None."""

    load: str
    latency: Figure | None
    throughput: Figure | None
    p90: Figure | None = None


@dataclass(frozen=True, slots=True)
class BestFigures:
    """The lowest latency and the highest throughput of all loads, each with its load as note."""

    latency: Figure | None
    throughput: Figure | None


def load_figures(status: EvaluationStatus) -> list[LoadFigures]:
    """Return the figures of an evaluation's loads."""
    return [
        LoadFigures(
            load=load_of(headline),
            latency=latency_figure(headline),
            throughput=throughput_figure(headline),
            p90=figure_of(headline.p90_ns, "ns", "90th percentile"),
        )
        for headline in status.headlines
    ]


def best_figures(headlines: Sequence[Headline]) -> BestFigures:
    """Return the figures of the best load: its p90, or where that is not known what its result is.

    As the scheduler sorts a list: the lowest latency, the highest throughput.
    """
    latencies = [(line.p90_ns or line.latency_ns, line) for line in headlines]
    rates = [(line.samples_per_s, line) for line in headlines]
    timed = [(estimate, line) for estimate, line in latencies if estimate is not None]
    rated = [(estimate, line) for estimate, line in rates if estimate is not None]
    fastest = min(timed, key=lambda pair: pair[0].value, default=None)
    highest = max(rated, key=lambda pair: pair[0].value, default=None)
    return BestFigures(
        latency=_best_latency(fastest[1]) if fastest else None,
        throughput=_best_throughput(highest[1]) if highest else None,
    )


def _best_latency(headline: Headline) -> Figure | None:
    """Return the latency of a load, which is another at each batch size: it says which."""
    p90 = figure_of(headline.p90_ns, "ns", "p90")
    figure = p90 or latency_figure(headline)
    batch = f"batch {headline.batch_size}, "
    interval = f"{batch}{figure.note}, {figure.interval}" if figure else ""
    return figure and Figure(figure.text, interval, load_of(headline))


def _best_throughput(headline: Headline) -> Figure | None:
    """Return the throughput of a load, which may be higher at another batch size: it says which."""
    figure = figure_of(headline.samples_per_s, "1/s")
    batch = f"batch {headline.batch_size}, "
    return figure and Figure(figure.text, f"{batch}{figure.interval}", load_of(headline))


def load_of(headline: Headline) -> str:
    """Return scenario and batch size."""
    return f"{headline.scenario}, batch {headline.batch_size}"


def latency_figure(headline: Headline) -> Figure | None:
    """Return the latency of a load."""
    return figure_of(headline.latency_ns, "ns", _STATISTICS[headline.statistic])


def throughput_figure(headline: Headline) -> Figure | None:
    """Return the throughput of a load; that of an open loop is what was offered."""
    note = "offered" if headline.offered_per_s else ""
    return figure_of(headline.samples_per_s, "1/s", note)


def figure_of(estimate: Estimate | None, unit: str, note: str = "") -> Figure | None:
    """Return an `estimate` in `unit` as a figure; `note` says what it is."""
    if estimate is None:
        return None
    amount, interval = estimate_text(estimate.value, estimate.low, estimate.high, unit)
    return Figure(amount, interval, note)
