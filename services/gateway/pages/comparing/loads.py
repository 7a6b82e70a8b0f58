"""Latency and throughput of each load of several evaluations, as ratios to the first. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.quantities import estimated
from mlscope.statistics import Estimate, ratio_interval
from schemas import analysis
from schemas.analysis import Headline, Table
from schemas.status import EvaluationStatus
from services.gateway.pages.headlines import Figure, latency_figure, throughput_figure

_LOAD_FIGURES = (
    ("latency", "latency_ns", latency_figure),
    ("samples a second", "samples_per_s", throughput_figure),
)
"""What is compared of each load: its name, the field of a headline, and how it is shown."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of one evaluation, and its ratio to the base's: '' for the base."""

    figure: Figure | None
    text: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class LoadRow:
    """A figure of a load, one an evaluation."""

    load: str
    figure: str
    ratios: Sequence[Ratio]


def load_rows(statuses: Sequence[EvaluationStatus], by_batch: Table | None = None) -> list[LoadRow]:
    """Return latency and throughput of each load that two evaluations have, as ratios.

    A headline is of one batch size of its load: the table `throughput_by_batch`, `by_batch`, has
    the others. Loads that the base lacks come last.
    """
    rows = []
    loads = sorted(_by_load(statuses, by_batch).items(), key=lambda load: (not load[1][0], load[0]))
    for (scenario, batch_size), headlines in loads:
        for name, field, figure_of in _LOAD_FIGURES:
            estimates = [getattr(headline, field, None) for headline in headlines]
            figures = [figure_of(headline) if headline else None for headline in headlines]
            ratios = _ratios(estimates, figures, is_less_better=name == "latency")
            rows.append(LoadRow(f"{scenario}, batch {batch_size}", name, ratios))
    return [row for row in rows if any(ratio.figure for ratio in row.ratios)]


def _by_load(
    statuses: Sequence[EvaluationStatus], by_batch: Table | None
) -> dict[tuple[str, int], list[Headline | None]]:
    """Return the headlines of each load, one an evaluation: None where it lacks the load."""
    by_load: dict[tuple[str, int], list[Headline | None]] = {}
    places = {status.evaluation: place for place, status in enumerate(statuses)}
    own = ((status.evaluation, line) for status in statuses for line in status.headlines)
    further = _headlines_in(by_batch) if by_batch else ()
    for evaluation, headline in (*further, *own):
        load = headline.scenario, headline.batch_size
        by_load.setdefault(load, [None] * len(statuses))[places[evaluation]] = headline
    return by_load


def _headlines_in(by_batch: Table) -> Iterator[tuple[str, Headline]]:
    """Yield the evaluation and the figures of each row of `throughput_by_batch`."""
    names = [column.name for column in by_batch.columns]
    for row in by_batch.rows:
        cells = dict(zip(names, row, strict=True))
        headline = Headline(
            run=cells["run"],
            agent=cells["agent"],
            scenario=cells["scenario"],
            batch_size=cells["batch_size"],
            latency_ns=_estimate(cells, "latency"),
            samples_per_s=_estimate(cells, "samples_per_s"),
        )
        yield cells["evaluation"], headline


def _estimate(cells: Mapping[str, Any], name: str) -> analysis.Estimate | None:
    if cells[name] is None:
        return None
    low, high = cells[f"{name}_low"], cells[f"{name}_high"]
    return analysis.Estimate(value=cells[name], low=low, high=high)


def _ratios(
    estimates: Sequence[analysis.Estimate | None],
    figures: Sequence[Figure | None],
    *,
    is_less_better: bool = False,
) -> list[Ratio]:
    base = estimates[0]
    ratios = [Ratio(figures[0])]
    for estimate, figure in zip(estimates[1:], figures[1:], strict=True):
        if not (base and estimate and base.value > 0 and estimate.value > 0):
            ratios.append(Ratio(figure))
            continue
        own, base_own = (
            Estimate(bounds.value, bounds.low, bounds.high) for bounds in (estimate, base)
        )
        interval = ratio_interval(own, base_own)
        text = estimated(estimate.value / base.value, interval.low, interval.high)
        low, high, tone = interval.low, interval.high, ""
        if low is not None and high is not None and not low <= 1.0 <= high:
            tone = "better" if (high < 1.0) == is_less_better else "worse"
        ratios.append(Ratio(figure, f"{text} of the base", tone))
    return ratios
