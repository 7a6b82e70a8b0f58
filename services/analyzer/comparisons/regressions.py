"""Regressions between versions: block against block of like conditions, with intervals.

Runs of the same agent, scenario, batch size, level and variant are paired, those with the same
parameters first, and their blocks by number. A pair is refused, with the conditions named, where
other conditions that must be equal differ (`likeness`): a number under other conditions, or of
another model, is no regression; one of another version of the same model may be.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt

import numpy as np

from mlscope.counts import be, many, verb
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from services.analyzer.building.charts import bars
from services.analyzer.building.noise import NOISY
from services.analyzer.building.table import (
    estimate_columns,
    format_share,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.comparisons.likeness import cpu_clock_caveat, differing_conditions
from services.analyzer.comparisons.source import Cells, Comparison, Source, Terms

_PAIRED_BY = ("agent", "scenario", "batch_size", "level", "variant")
_PARAMETERS = ("parameters",)
_REPLAY = "counters"
"""The variant of runs whose times include a profiler's replays."""
_VERSIONS = ("model", "framework", "mlscope_version", "python_version", "checksums")
LEAST_CHANGE = 0.01
"""A smaller change counts as the same, however certain it is."""
LEAST_BLOCKS = 3
"""With fewer blocks in both runs, whole runs are compared."""

_Change = tuple[float, float | None, float | None]


def regressions(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each pair: a run of the first source against one of another source."""
    rows: list[Cells] = []
    notes: list[str] = []
    for second in sources[1:]:
        pairs, unpaired = _paired(sources[0], second)
        rows += [_compared(sources[0], second, *pair) for pair in pairs]
        notes += [note for pair in pairs if (note := cpu_clock_caveat(sources[0], second, *pair))]
        notes += [
            f"{source.evaluation}/{note}"
            for pair in pairs
            for source, row in zip((sources[0], second), pair, strict=True)
            for note in source.caveats("latency")
            if note.startswith(f"{row['run']}: {NOISY}")
        ]
        if unpaired:
            notes.append(
                f"{second.evaluation}: {many(unpaired, 'run')} {verb(unpaired, 'has', 'have')} no "
                "partner of the same agent, scenario, batch size, level and variant"
            )
    judged = [row for row in rows if row["result"] != "refused"]
    whole_runs = sum(row["paired"] == "runs" for row in judged)
    if whole_runs:
        notes.append(
            f"{whole_runs} of {many(len(judged), 'pair')} {verb(whole_runs, 'compares', 'compare')}"
            f" whole runs, which have fewer than {LEAST_BLOCKS} common blocks: drift between the "
            f"runs counts as a change; run them with --blocks {LEAST_BLOCKS}"
        )
    return make_table(COMPARISON, rows, _verdict(rows), notes)


def _verdict(rows: Sequence[Cells]) -> str:
    if not rows:
        return "No runs of two evaluations can be paired."
    judged = [row for row in rows if row["result"] != "refused"]
    count = len(rows) - len(judged)
    differing = sorted({name for row in rows for name in row["unlike"].split(", ") if name})
    refused = f"; {many(count, 'pair')} refused: different {', '.join(differing)}" if count else ""
    if not judged:
        return f"No pair of runs has like conditions{refused}."
    slower = [row for row in judged if row["result"] == "slower"]
    faster = sum(row["result"] == "faster" for row in judged)
    if not slower:
        none = f"None of {many(len(judged), 'pair')} is slower"
        return f"{none}, {faster} {be(faster)} faster{refused}."
    worst = max(slower, key=lambda row: row["change"])
    return (
        f"{len(slower)} of {many(len(judged), 'pair')} {be(len(slower))} slower, at worst "
        f"{worst['scenario']} at batch {worst['batch_size']} by "
        f"{format_share(worst['change'])}{refused}."
    )


def _paired(first: Source, second: Source) -> tuple[list[tuple[Cells, Cells]], int]:
    """Return the pairs of rows of latency, and how many rows of the second have no partner.

    Rows of one key are paired in their order, those with the same parameters before the others.
    """
    before: dict[tuple[object, ...], list[Cells]] = defaultdict(list)
    for row in _latency_rows(first):
        before[_key(first, row, _PAIRED_BY)].append(row)
    rows = _latency_rows(second)
    partners: dict[int, Cells] = {}
    for needs_parameters in (True, False):
        for place, row in enumerate(rows):
            candidates = before[_key(second, row, _PAIRED_BY)] if place not in partners else []
            parameters = _key(second, row, _PARAMETERS)
            fitting = (
                candidate
                for candidate in candidates
                if not needs_parameters or _key(first, candidate, _PARAMETERS) == parameters
            )
            if partner := next(fitting, None):
                partners[place] = candidates.pop(candidates.index(partner))
    pairs = [(partners[place], row) for place, row in enumerate(rows) if place in partners]
    return pairs, len(rows) - len(pairs)


def _latency_rows(source: Source) -> list[Cells]:
    return [
        row
        for row in source.rows("latency")
        if source.conditions.get(row["run"], {}).get("variant") != _REPLAY
    ]


def _key(source: Source, row: Cells, names: Sequence[str]) -> tuple[object, ...]:
    conditions = source.conditions.get(row["run"], {})
    # Tables stored before there were variants lack the column: they hold plain runs.
    return tuple({"variant": "", **conditions, **row}.get(name) for name in names)


def _compared(first: Source, second: Source, old: Cells, new: Cells) -> Cells:
    before, after = first.conditions.get(old["run"], {}), second.conditions.get(new["run"], {})
    differing = differing_conditions(first, second, old, new)
    old_blocks, new_blocks = (
        {row["block"]: row["trimmed_mean"] for row in source.rows("blocks") if row["run"] == run}
        for source, run in ((first, old["run"]), (second, new["run"]))
    )
    common = sorted(old_blocks.keys() & new_blocks.keys())
    ratios = [new_blocks[block] / old_blocks[block] for block in common if old_blocks[block]]
    by_block = len(ratios) >= LEAST_BLOCKS
    change = None if differing else _change(ratios, old, new)
    return {
        "first": first.evaluation,
        "second": second.evaluation,
        **{name: new[name] for name in ("agent", "scenario", "batch_size", "level")},
        "first_run": old["run"],
        "second_run": new["run"],
        "changed": ", ".join(name for name in _VERSIONS if before.get(name) != after.get(name)),
        "unlike": ", ".join(differing),
        **{f"first_latency{end}": old[f"trimmed_mean{end}"] for end in ("", "_low", "_high")},
        "first_count": old["count"],
        **{f"second_latency{end}": new[f"trimmed_mean{end}"] for end in ("", "_low", "_high")},
        "second_count": new["count"],
        "paired": "blocks" if by_block else "runs",
        "pairs": len(ratios) if by_block else 1,
        "change": change[0] if change else None,
        "change_low": change[1] if change else None,
        "change_high": change[2] if change else None,
        "result": "refused" if differing else _result(change),
    }


def _change(ratios: Sequence[float], old: Cells, new: Cells) -> _Change | None:
    """Return new / old - 1 with its interval: over the blocks' ratios if there are enough.

    Else it is that of the whole runs, where the squares of relative half-widths add up.
    """
    if len(ratios) >= LEAST_BLOCKS:
        interval = blocks_interval(np.array(ratios) - 1.0)
        return float(np.mean(ratios)) - 1.0, interval.low, interval.high
    ratio = share(new["trimmed_mean"], old["trimmed_mean"])
    if ratio is None:
        return None
    half_widths = []
    for row in (old, new):
        low, high = row["trimmed_mean_low"], row["trimmed_mean_high"]
        if low is None or high is None:
            return ratio - 1.0, None, None
        half_widths.append((high - low) / 2 / row["trimmed_mean"])
    margin = ratio * sqrt(half_widths[0] ** 2 + half_widths[1] ** 2)
    return ratio - 1.0, ratio - 1.0 - margin, ratio - 1.0 + margin


def _result(change: _Change | None) -> str:
    """Return slower or faster where the whole interval agrees and the change is large enough."""
    value, low, high = change or (0.0, None, None)
    if low is None or high is None:
        return "unknown"
    if abs(value) < LEAST_CHANGE or low <= 0.0 <= high:
        return "same"
    return "slower" if value > 0.0 else "faster"


COMPARISON = Comparison(
    name="regressions",
    title="Regressions between versions",
    source=(
        "Trimmed mean latency, new / old - 1: the mean over the blocks that both runs have, with "
        f"Student's t over blocks. With fewer than {LEAST_BLOCKS} blocks it is that of whole runs, "
        "and its interval adds the squares of both relative half-widths (independent runs). Slower "
        f"or faster where the interval excludes 0 and the change is {LEAST_CHANGE:.0%} or more."
    ),
    columns=(
        text_column("first", "The first evaluation."),
        text_column("second", "The evaluation compared with it."),
        text_column("agent", "The agent that ran both."),
        text_column("scenario", "The scenario: how queries arrived."),
        int_column("batch_size", "Samples per query."),
        text_column("level", "The deepest trace level of both runs."),
        text_column("first_run", "The run of the first evaluation."),
        text_column("second_run", "The run of the second evaluation."),
        text_column("changed", "Versions that differ between the runs."),
        text_column("unlike", "Conditions that differ but must be equal; they refuse the pair."),
        *estimate_columns("first_latency", "Trimmed mean latency of the first run."),
        int_column("first_count", "Queries of the first run."),
        *estimate_columns("second_latency", "Trimmed mean latency of the second run."),
        int_column("second_count", "Queries of the second run."),
        text_column(
            "paired", "What was compared: blocks, or whole runs where too few blocks match."
        ),
        int_column("pairs", "Pairs of blocks or runs compared."),
        *estimate_columns("change", "Second over first latency, less 1; null where refused.", "1"),
        text_column("result", "Result: slower, faster, same, unknown (no interval) or refused."),
    ),
    compute=regressions,
    chart=bars(("second_run", "Run"), ("change", "Change of latency"), "result", facet="second"),
)
