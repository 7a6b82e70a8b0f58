"""Regressions between versions: block against block of like conditions, with intervals.

Paired are runs of the same agent, scenario, batch size, level and variant, those of the same
parameters first, and of these their blocks by number. What else must be alike (`likeness`) and is
not refuses the pair, and is named: a number under other conditions, or of another model, is no
regression; another version of the same model may be one.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt

import numpy as np

from mlscope.counts import be, many, verb
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from services.analyzer.across.likeness import clocks_apart, unlike
from services.analyzer.across.source import Cells, Comparison, Source, Terms
from services.analyzer.noise import NOISY
from services.analyzer.tables.charts import bars
from services.analyzer.tables.table import (
    estimate,
    in_percent,
    made,
    share,
    text,
    whole,
)

_PAIRED_BY = ("agent", "scenario", "batch_size", "level", "variant")
_PARAMETERS = ("parameters",)
_REPLAY = "counters"
"""The variant of runs whose times are a profiler's."""
_VERSIONS = ("model", "framework", "mlscope_version", "python_version", "checksums")
LEAST = 0.01
"""A change below this is the same, however sure it is."""
LEAST_BLOCKS = 3
"""Blocks that both runs have, below which whole runs are compared."""

_Change = tuple[float, float | None, float | None]


def regressions(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row a pair: the first evaluation's run against each other's."""
    rows: list[Cells] = []
    notes: list[str] = []
    for other in sources[1:]:
        pairs, lonely = _paired(sources[0], other)
        rows += [_cells(sources[0], other, *pair) for pair in pairs]
        notes += [n for pair in pairs if (n := clocks_apart(sources[0], other, *pair))]
        notes += [n for pair in pairs for n in _noise(sources[0], other, *pair)]
        if lonely:
            notes.append(
                f"{other.evaluation}: {many(lonely, 'run')} {verb(lonely, 'has', 'have')} no "
                "partner of the same agent, scenario, batch size, level and variant"
            )
    return made(COMPARISON, rows, _verdict(rows), [*notes, *_without_blocks(rows)])


def _noise(first: Source, other: Source, old: Cells, new: Cells) -> list[str]:
    """Return what the tables of latency say of noise in a pair's runs, each with its evaluation."""
    return [
        f"{source.evaluation}/{note}"
        for source, row in ((first, old), (other, new))
        for note in source.caveats("latency")
        if note.startswith(f"{row['run']}: {NOISY}")
    ]


def _without_blocks(rows: Sequence[Cells]) -> list[str]:
    """Return a caveat where whole runs were compared: their drift is in no interval."""
    judged = [row for row in rows if row["result"] != "refused"]
    count = sum(row["paired"] == "runs" for row in judged)
    if not count:
        return []
    compared = f"{count} of {many(len(judged), 'pair')} {verb(count, 'compares', 'compare')}"
    wanted = f"for want of {LEAST_BLOCKS} blocks in both: drift between the two counts as a change"
    return [f"{compared} whole runs, {wanted}; run them with --blocks {LEAST_BLOCKS}"]


def _verdict(rows: Sequence[Cells]) -> str:
    if not rows:
        return "No runs of two evaluations can be paired."
    judged = [row for row in rows if row["result"] != "refused"]
    refused = len(rows) - len(judged)
    unlike = sorted({name for row in rows for name in row["unlike"].split(", ") if name})
    told = f"; {many(refused, 'pair')} refused: other {', '.join(unlike)}" if refused else ""
    if not judged:
        return f"No pair of runs has like conditions{told}."
    slower = [row for row in judged if row["result"] == "slower"]
    faster = sum(row["result"] == "faster" for row in judged)
    if not slower:
        none = f"None of {many(len(judged), 'pair')} is slower"
        return f"{none}, {faster} {be(faster)} faster{told}."
    worst = max(slower, key=lambda row: row["change"])
    return (
        f"{len(slower)} of {many(len(judged), 'pair')} {be(len(slower))} slower, at worst "
        f"{worst['scenario']} at batch {worst['batch_size']} by "
        f"{in_percent(worst['change'])}{told}."
    )


def _paired(first: Source, other: Source) -> tuple[list[tuple[Cells, Cells]], int]:
    """Return rows of latency that belong together, and how many of the other have no partner.

    Those of one key are taken in their order, of the same parameters before any that is left over.
    """
    before: dict[tuple[object, ...], list[Cells]] = defaultdict(list)
    for row in _timed(first):
        before[_told(first, row, _PAIRED_BY)].append(row)
    rows = _timed(other)
    found: dict[int, Cells] = {}
    for must_be_like in (True, False):
        for place, row in enumerate(rows):
            mine = before[_told(other, row, _PAIRED_BY)] if place not in found else []
            like = [
                each
                for each in mine
                if not must_be_like
                or _told(first, each, _PARAMETERS) == _told(other, row, _PARAMETERS)
            ]
            if like:
                found[place] = mine.pop(mine.index(like[0]))
    pairs = [(found[place], row) for place, row in enumerate(rows) if place in found]
    return pairs, len(rows) - len(pairs)


def _timed(source: Source) -> list[Cells]:
    rows = source.rows("latency")
    return [r for r in rows if source.conditions.get(r["run"], {}).get("variant") != _REPLAY]


def _told(source: Source, row: Cells, names: Sequence[str]) -> tuple[object, ...]:
    told = source.conditions.get(row["run"], {})
    # Tables of before there were variants have none: no variant is what they mean.
    return tuple({"variant": "", **told, **row}.get(name) for name in names)


def _cells(first: Source, other: Source, old: Cells, new: Cells) -> Cells:
    were, are = first.conditions.get(old["run"], {}), other.conditions.get(new["run"], {})
    refused = unlike(first, other, old, new)
    ratios = _ratios(first, other, old, new)
    by_block = len(ratios) >= LEAST_BLOCKS
    change = None if refused else _of_blocks(ratios) if by_block else _change(old, new)
    return {
        "first": first.evaluation,
        "second": other.evaluation,
        **{name: new[name] for name in ("agent", "scenario", "batch_size", "level")},
        "first_run": old["run"],
        "second_run": new["run"],
        "changed": ", ".join(n for n in _VERSIONS if were.get(n) != are.get(n)),
        "unlike": ", ".join(refused),
        **_ends("first_latency", old),
        "first_count": old["count"],
        **_ends("second_latency", new),
        "second_count": new["count"],
        "paired": "blocks" if by_block else "runs",
        "pairs": len(ratios) if by_block else 1,
        "change": change[0] if change else None,
        "change_low": change[1] if change else None,
        "change_high": change[2] if change else None,
        "result": "refused" if refused else _result(change),
    }


def _ends(name: str, row: Cells) -> Cells:
    return {f"{name}{end}": row[f"trimmed_mean{end}"] for end in ("", "_low", "_high")}


def _ratios(first: Source, other: Source, old: Cells, new: Cells) -> list[float]:
    """Return new over old of each block that both runs have."""
    before, after = (
        {row["block"]: row["trimmed_mean"] for row in source.rows("blocks") if row["run"] == run}
        for source, run in ((first, old["run"]), (other, new["run"]))
    )
    both = sorted(before.keys() & after.keys())
    return [after[block] / before[block] for block in both if before[block]]


def _of_blocks(ratios: Sequence[float]) -> _Change:
    interval = blocks_interval(np.array(ratios) - 1.0)
    return float(np.mean(ratios)) - 1.0, interval.low, interval.high


def _change(old: Cells, new: Cells) -> _Change | None:
    """Return new over old less 1 and its interval: relative errors add as squares."""
    ratio = share(new["trimmed_mean"], old["trimmed_mean"])
    if ratio is None:
        return None
    before, after = _reach(old), _reach(new)
    if before is None or after is None:
        return ratio - 1.0, None, None
    reach = ratio * sqrt(before**2 + after**2)
    return ratio - 1.0, ratio - 1.0 - reach, ratio - 1.0 + reach


def _reach(row: Cells) -> float | None:
    """Return half the interval's width over the value."""
    low, high = row["trimmed_mean_low"], row["trimmed_mean_high"]
    return None if low is None or high is None else (high - low) / 2 / row["trimmed_mean"]


def _result(change: _Change | None) -> str:
    """Return slower or faster where the whole interval says so and the change is worth a word."""
    value, low, high = change or (0.0, None, None)
    if low is None or high is None:
        return "unknown"
    if abs(value) < LEAST or low <= 0.0 <= high:
        return "same"
    return "slower" if value > 0.0 else "faster"


COMPARISON = Comparison(
    name="regressions",
    title="Regressions between versions",
    source=(
        "Trimmed mean latency, new over old less 1: the mean over blocks that both runs have, "
        f"Student's t over blocks; below {LEAST_BLOCKS} of whole runs, whose interval adds the two "
        "relative half-widths as squares (independent runs). Slower or faster where the interval "
        f"leaves 0 out and the change is {LEAST:.0%} or more."
    ),
    columns=(
        text("first", "The evaluation before."),
        text("second", "The evaluation after."),
        text("agent", "Where both ran."),
        text("scenario", "How queries arrived."),
        whole("batch_size", "Samples in a query."),
        text("level", "The deepest trace level of both."),
        text("first_run", "The run before."),
        text("second_run", "The run after."),
        text("changed", "Versions that differ: what is compared."),
        text("unlike", "Conditions that differ and may not: the pair is refused."),
        *estimate("first_latency", "Trimmed mean latency before."),
        whole("first_count", "Queries it is over."),
        *estimate("second_latency", "Trimmed mean latency after."),
        whole("second_count", "Queries it is over."),
        text("paired", "blocks, or runs where both have too few blocks."),
        whole("pairs", "Pairs that the change is over."),
        *estimate("change", "After over before, less 1; null where refused.", "1"),
        text("result", "slower, faster, same, unknown (no interval) or refused."),
    ),
    compute=regressions,
    chart=bars(("second_run", "Run"), ("change", "Change of latency"), "result", facet="second"),
)
