"""The main figures of an evaluation: of each load one latency and one throughput. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.analysis import Estimate, Headline, Statistic, Table
from services.analyzer.building.noise import noise_of
from services.analyzer.frames.evaluation import Run
from services.analyzer.tables.latency import MOST_IN_VERDICT, representative, runs_by_load

Cells = Mapping[str, Any]


def headlines_of(runs: Sequence[Run], tables: Sequence[Table]) -> tuple[Headline, ...]:
    """Return the figures of each load, in the order of the runs; at most as many as a verdict.

    They are those of the run that represents the load in the verdict of `latency`, as the tables
    have them. A run that was cut off has none: they stand without the caveats.
    """
    return _headlines(runs_by_load(_not_cut_off(runs))[:MOST_IN_VERDICT], tables)


def batch_headlines_of(runs: Sequence[Run], tables: Sequence[Table]) -> tuple[Headline, ...]:
    """Return the figures of each load at each of its batch sizes, by their `runs` and `tables`."""
    groups: list[list[Run]] = []
    for group in runs_by_load(_not_cut_off(runs)):
        by_size: dict[int, list[Run]] = defaultdict(list)
        for run in group:
            by_size[run.row.batch_size].append(run)
        groups += by_size.values()
    return _headlines(groups, tables)


def _not_cut_off(runs: Sequence[Run]) -> Iterator[Run]:
    return (run for run in runs if not run.cut_off_text)


def _headlines(groups: Sequence[list[Run]], tables: Sequence[Table]) -> tuple[Headline, ...]:
    """Return the figures of each group of runs, by the run that represents it."""
    latency, throughput = _rows(tables, "latency"), _rows(tables, "throughput")
    names = {run.row.run: run for run in map(representative, groups)}
    headlines: list[Headline] = []
    for name, run in names.items():
        if name not in latency:
            continue
        statistic: Statistic = "p99" if run.is_open_loop else "trimmed_mean"
        if latency[name]["count"] == 1:
            statistic = "median"
        rate = throughput.get(name, {})
        headlines.append(
            Headline(
                run=run.row.run,
                agent=run.row.agent,
                scenario=run.row.scenario,
                parameters=run.row.parameters_text,
                batch_size=run.row.batch_size,
                statistic=statistic,
                latency_ns=_estimate(latency[name], statistic),
                samples_per_s=_estimate(rate, "samples_per_s"),
                offered_per_s=rate.get("offered_per_s"),
                p90_ns=_estimate(latency[name], "p90"),
                queries=latency[name]["count"],
                is_noisy=bool(noise_of(run)),
                framework=run.row.framework,
            )
        )
    return tuple(headlines)


def _estimate(cells: Cells, name: str) -> Estimate | None:
    value = cells.get(name)
    if value is None:
        return None
    return Estimate(value=value, low=cells.get(f"{name}_low"), high=cells.get(f"{name}_high"))


def _rows(tables: Sequence[Table], name: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by their run."""
    for table in tables:
        if table.name == name:
            return {row["run"]: row for row in table.records()}
    return {}
