"""Latency and throughput of each load of several evaluations, as ratios to the first. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
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
_Load = tuple[str, int, str]
"""Scenario, batch size, and what tells it apart from others of its evaluation."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of one evaluation, and its ratio to the base's: '' for the base.

    `unlike` names the conditions that differ but must be equal: there is no tone then.
    """

    figure: Figure | None
    text: str = ""
    tone: str = ""
    unlike: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Up to which share drift changes a load, and the conditions that keep it from a verdict."""

    drift: float = 0.0
    unlike: str = ""


@dataclass(frozen=True, slots=True)
class LoadRow:
    """A figure of a load, one an evaluation."""

    load: str
    figure: str
    ratios: Sequence[Ratio]


def load_rows(
    statuses: Sequence[EvaluationStatus], compared: Mapping[str, Table] = MappingProxyType({})
) -> list[LoadRow]:
    """Return latency and throughput of each load that two evaluations have, as ratios.

    A headline is of one batch size of its load: the table `throughput_by_batch` of those that were
    `compared` has the others. Ratios hold the drift that the table `regressions` knows of, and no
    verdict where it refused the pair. Loads that the base lacks come last.
    """
    rows = []
    by_load = _by_load(statuses, compared.get("throughput_by_batch"))
    judged = _judged(compared.get("regressions"))
    loads = sorted(by_load.items(), key=lambda load: (not load[1][0], load[0]))
    for (scenario, batch_size, detail), headlines in loads:
        pairs = [
            judged.get((status.evaluation, line.run), _unjudged(headlines[0], line))
            if line
            else _Pair()
            for status, line in zip(statuses, headlines, strict=True)
        ]
        text = ", ".join(filter(None, (scenario, f"batch {batch_size}", detail)))
        for name, field, figure_of in _LOAD_FIGURES:
            estimates = [getattr(headline, field, None) for headline in headlines]
            figures = [figure_of(headline) if headline else None for headline in headlines]
            ratios = _ratios(estimates, figures, pairs, is_less_better=name == "latency")
            rows.append(LoadRow(text, name, ratios))
    return [row for row in rows if any(ratio.figure for ratio in row.ratios)]


def _by_load(
    statuses: Sequence[EvaluationStatus], by_batch: Table | None
) -> dict[_Load, list[Headline | None]]:
    """Return the headlines of each load, one an evaluation: None where it lacks the load."""
    own = ((status.evaluation, line) for status in statuses for line in status.headlines)
    lines = [*(_headlines_in(by_batch) if by_batch else ()), *own]
    names = _names_apart(lines)
    by_load: dict[_Load, list[Headline | None]] = {}
    places = {status.evaluation: place for place, status in enumerate(statuses)}
    for evaluation, line in lines:
        facts, load = _facts_of(line), (line.scenario, line.batch_size)
        detail = ", ".join(f"{name} {facts[name]}" for name in names[load] if name in facts)
        by_load.setdefault((*load, detail), [None] * len(statuses))[places[evaluation]] = line
    return by_load


def _names_apart(lines: Sequence[tuple[str, Headline]]) -> dict[tuple[str, int], list[str]]:
    """Return by scenario and batch size what one evaluation has several values of, else nothing.

    It is the agent or a parameter, such as when samples are prepared.
    """
    values: dict[tuple[str, int], dict[tuple[str, str], set[str]]] = defaultdict(dict)
    for evaluation, line in lines:
        of_load = values[line.scenario, line.batch_size]
        for name, value in _facts_of(line).items():
            of_load.setdefault((name, evaluation), set()).add(value)
    return {
        load: sorted({name for (name, _), own in of_load.items() if len(own) > 1})
        for load, of_load in values.items()
    }


def _facts_of(line: Headline) -> dict[str, str]:
    """Return the agent and the parameters of a load, those that are known."""
    parameters = json.loads(line.parameters)
    facts = {"agent": line.agent, **parameters}
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def _headlines_in(by_batch: Table) -> Iterator[tuple[str, Headline]]:
    """Yield the evaluation and the figures of each row of `throughput_by_batch`."""
    for cells in by_batch.records():
        headline = Headline(
            run=cells["run"],
            agent=cells["agent"],
            scenario=cells["scenario"],
            parameters=cells.get("parameters", "{}"),
            batch_size=cells["batch_size"],
            latency_ns=_estimate(cells, "latency"),
            samples_per_s=_estimate(cells, "samples_per_s"),
        )
        yield cells["evaluation"], headline


def _judged(regressions: Table | None) -> dict[tuple[str, str], _Pair]:
    """Return what the table `regressions` says of pairs, by the compared evaluation and its run.

    That of an earlier release lacks some of the columns.
    """
    return {
        (cells.get("second", ""), cells.get("second_run", "")): _Pair(
            cells.get("drift_share") or 0.0, cells.get("unlike") or ""
        )
        for cells in (regressions.records() if regressions else ())
    }


def _unjudged(base: Headline | None, line: Headline) -> _Pair:
    """Return a pair that `regressions` lacks, as of two agents: only parameters must be equal.

    When samples are prepared may differ: a caveat says so.
    """
    before, after = (json.loads(known.parameters) for known in (base or line, line))
    common = sorted((before.keys() & after.keys()) - {"samples"})
    differing = [f"parameter {name}" for name in common if before[name] != after[name]]
    return _Pair(unlike=", ".join(differing))


def _estimate(cells: Mapping[str, Any], name: str) -> analysis.Estimate | None:
    if cells[name] is None:
        return None
    low, high = cells[f"{name}_low"], cells[f"{name}_high"]
    return analysis.Estimate(value=cells[name], low=low, high=high)


def _ratios(
    estimates: Sequence[analysis.Estimate | None],
    figures: Sequence[Figure | None],
    pairs: Sequence[_Pair],
    *,
    is_less_better: bool = False,
) -> list[Ratio]:
    """Return the ratios to the first; an interval reaches as far as drift alone, where known.

    Only a pair of like conditions is better or worse.
    """
    base = estimates[0]
    ratios = [Ratio(figures[0])]
    for estimate, figure, pair in zip(estimates[1:], figures[1:], pairs[1:], strict=True):
        if not (base and estimate and base.value > 0 and estimate.value > 0):
            ratios.append(Ratio(figure))
            continue
        own, base_own = (
            Estimate(bounds.value, bounds.low, bounds.high) for bounds in (estimate, base)
        )
        interval, ratio = ratio_interval(own, base_own), estimate.value / base.value
        low, high, tone = interval.low, interval.high, ""
        if low is not None and high is not None:
            reach = 1.0 + pair.drift
            low, high = min(low, ratio / reach), max(high, ratio * reach)
            if not pair.unlike and not low <= 1.0 <= high:
                tone = "better" if (high < 1.0) == is_less_better else "worse"
        ratios.append(
            Ratio(figure, f"{estimated(ratio, low, high)} of the base", tone, pair.unlike)
        )
    return ratios
