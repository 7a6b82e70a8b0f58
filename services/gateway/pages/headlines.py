"""The main figures of evaluations as texts. Pure."""

from collections.abc import Mapping
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


def load_figures(status: EvaluationStatus) -> list[LoadFigures]:
    """Return the figures of an evaluation's loads."""
    return [
        LoadFigures(
            load=f"{headline.scenario}, batch {headline.batch_size}",
            latency=latency_figure(headline),
            throughput=throughput_figure(headline),
        )
        for headline in status.headlines
    ]


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
