"""Regressions between versions: block against block of like conditions, with intervals.

Runs of the same agent, scenario, batch size, level and variant are paired, those with the same
parameters first, and their blocks by number. Blocks of two evaluations do not take turns, so drift
between these is in an interval only where others like them show it (`drift`). A pair is refused,
with the conditions named, where other conditions that must be equal differ (`likeness`): a number
under other conditions, or of another model, is no regression; one of another version of the same
model may be.
"""

from collections import Counter
from collections.abc import Sequence
from math import sqrt

import numpy as np

from mlscope.counts import many, verb
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from services.analyzer.building.best import estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import UNKNOWN, Margin
from services.analyzer.building.noise import NOISY
from services.analyzer.building.table import (
    estimate_columns,
    float_column,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.comparisons.drift import (
    LEAST_REPEATS,
    drift_between,
    drift_text,
    noisy_sides,
    remedy,
)
from services.analyzer.comparisons.likeness import (
    cpu_clock_caveat,
    differing_conditions,
    unknown_preparation,
)
from services.analyzer.comparisons.pairing import VERSIONS, paired
from services.analyzer.comparisons.source import Cells, Comparison, Source, Terms
from services.analyzer.comparisons.verdicts import changes_text

_PLACE_DETAILS = ("agent", "level", "second_run", "second")
"""The columns that tell rows of one load apart."""
LEAST_CHANGE = 0.01
"""A smaller change counts as the same, however certain it is."""
_LEAST_TEXT = f" by {LEAST_CHANGE:.0%} or more"
LEAST_BLOCKS = 3
"""With fewer blocks in both runs, whole runs are compared."""


def regressions(sources: Sequence[Source], terms: Terms) -> Table:
    """Return a row for each pair: a run of the first source against one of another source."""
    rows: list[Cells] = []
    notes: list[str] = []
    for second in sources[1:]:
        pairs, unpaired = paired(sources[0], second)
        own = [_compared_row((sources[0], second), *pair, terms.others) for pair in pairs]
        rows += own
        if any(row["result"] in ("slower", "faster") and row["drift_share"] is None for row in own):
            notes.append(remedy(sources[0], second))
        notes += [
            note
            for pair in pairs
            for caveat_of in (cpu_clock_caveat, unknown_preparation)
            if (note := caveat_of(sources[0], second, *pair))
        ]
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
            f" whole runs, which have fewer than {LEAST_BLOCKS} common blocks: drift within the "
            f"runs counts as a change; run them with --blocks {LEAST_BLOCKS}"
        )
    return make_table(COMPARISON, rows, _verdict(rows), notes)


def _verdict(rows: Sequence[Cells]) -> str:
    if not rows:
        return "No runs of two evaluations can be paired."
    refused = [row for row in rows if row["result"] == "refused"]
    blocks, runs = (
        [row for row in rows if row["result"] != "refused" and row["paired"] == unit]
        for unit in ("blocks", "runs")
    )
    parts = [] if blocks or runs else ["No pair of runs has comparable conditions"]
    parts += [_blocks_text(blocks)] if blocks else []
    parts += [_runs_text(runs)] if runs else []
    if refused:
        unlike = ", ".join(row["unlike"] for row in refused if row["unlike"])
        differing = ", ".join(sorted(set(unlike.split(", "))))
        parts.append(f"{many(len(refused), 'pair')} refused: different {differing}")
    parts += [drift_text([*blocks, *runs])] if blocks or runs else []
    return f"{'; '.join(parts)}."


def _blocks_text(rows: Sequence[Cells]) -> str:
    """Return how pairs of blocks changed, and which became the slowest."""
    counts = Counter(row["result"] for row in rows)
    text = changes_text(many(len(rows), "pair"), counts, _LEAST_TEXT)
    slower = [row for row in rows if row["result"] == "slower"]
    if not slower:
        return text
    worst = leader(slower, "change")

    def load_of(row: Cells) -> str:
        return f"{row['scenario']} at batch {row['batch_size']}"

    change = estimate_text(worst.row, "change", "share")
    if doubt := worst.doubt("which is the worst", load_of, _PLACE_DETAILS):
        return f"{text}, by up to {change}; {doubt}"
    return f"{text}, at worst {load_of(worst.row)} by {change}"


def _runs_text(rows: Sequence[Cells]) -> str:
    """Return how whole runs changed: their intervals leave out drift within the runs."""
    counts = Counter(row["result"] for row in rows)
    subject = (
        f"{many(len(rows), 'pair')} of whole runs, with fewer than {LEAST_BLOCKS} common blocks"
    )
    return changes_text(subject, counts, _LEAST_TEXT)


def _compared_row(
    sides: tuple[Source, Source], old: Cells, new: Cells, others: Sequence[Source]
) -> Cells:
    """Return the row of a pair: `old` and `new` are rows of latency of the `sides`.

    `others` are further evaluations of the same loads, which say how much drift there is.
    """
    first, second = sides
    before, after = first.conditions.get(old["run"], {}), second.conditions.get(new["run"], {})
    differing = differing_conditions(first, second, old, new)
    old_blocks = first.block_latencies(old["run"])
    new_blocks = second.block_latencies(new["run"])
    common = sorted(old_blocks.keys() & new_blocks.keys())
    ratios = [new_blocks[block] / old_blocks[block] for block in common if old_blocks[block]]
    by_block = len(ratios) >= LEAST_BLOCKS
    old_latency, new_latency = _latency(old), _latency(new)
    drift = drift_between(first, second, old, others)
    change = UNKNOWN if differing else drift.widened(change_of(ratios, old_latency, new_latency))
    return {
        "first": first.evaluation,
        "second": second.evaluation,
        **{name: new[name] for name in ("agent", "scenario", "batch_size", "level")},
        "first_run": old["run"],
        "second_run": new["run"],
        "changed": ", ".join(name for name in VERSIONS if before.get(name) != after.get(name)),
        "unlike": ", ".join(differing),
        **old_latency.cells("first_latency"),
        "first_count": old["count"],
        **new_latency.cells("second_latency"),
        "second_count": new["count"],
        "paired": "blocks" if by_block else "runs",
        "pairs": len(ratios) if by_block else 1,
        **change.cells("change"),
        **drift.cells(),
        "noisy": noisy_sides(first, second, old, new),
        "result": "refused" if differing else result_of(change),
    }


def _latency(row: Cells) -> Margin:
    return Margin(row["trimmed_mean"], row["trimmed_mean_low"], row["trimmed_mean_high"])


def result_of(change: Margin) -> str:
    """Return slower or faster where the whole interval agrees and the change is large enough.

    Else it is same, or unknown for a change without an interval.
    """
    if change.value is None or change.low is None or change.high is None:
        return "unknown"
    if abs(change.value) < LEAST_CHANGE or change.low <= 0.0 <= change.high:
        return "same"
    return "slower" if change.value > 0.0 else "faster"


def change_of(ratios: Sequence[float], old: Margin, new: Margin) -> Margin:
    """Return `new` / `old` - 1 with its interval, where both are latencies (ns).

    It is the mean over the `ratios` of blocks if there are enough; else that of the whole runs,
    where the squares of relative half-widths add up. UNKNOWN for an unknown latency.
    """
    if len(ratios) >= LEAST_BLOCKS:
        interval = blocks_interval(np.array(ratios) - 1.0)
        return Margin(float(np.mean(ratios)) - 1.0, interval.low, interval.high)
    ratio = share(new.value, old.value)
    if ratio is None:
        return UNKNOWN
    half_widths = []
    for latency in (old, new):
        if latency.value is None or latency.low is None or latency.high is None:
            return Margin(ratio - 1.0)
        half_widths.append((latency.high - latency.low) / 2 / latency.value)
    reach = ratio * sqrt(half_widths[0] ** 2 + half_widths[1] ** 2)
    return Margin(ratio - 1.0, ratio - 1.0 - reach, ratio - 1.0 + reach)


COMPARISON = Comparison(
    name="regressions",
    title="Regressions between versions",
    source=(
        "Trimmed mean latency, new / old - 1: the mean over the blocks that both runs have, with "
        f"Student's t over blocks. With fewer than {LEAST_BLOCKS} blocks it is that of whole runs, "
        "and its interval adds the squares of both relative half-widths (independent runs). With "
        f"{LEAST_REPEATS} other evaluations like them it reaches at least as far as drift between "
        "evaluations alone (ISO 5725-6's repeatability limit of their logarithms). Slower or "
        f"faster where the interval excludes 0 and the change is {LEAST_CHANGE:.0%} or more."
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
        text_column(
            "unlike", "Conditions that must be equal but differ: the pair is not compared."
        ),
        *estimate_columns("first_latency", "Trimmed mean latency of the first run."),
        int_column("first_count", "Queries of the first run."),
        *estimate_columns("second_latency", "Trimmed mean latency of the second run."),
        int_column("second_count", "Queries of the second run."),
        text_column(
            "paired", "What was compared: blocks, or whole runs where too few blocks match."
        ),
        int_column("pairs", "Pairs of blocks or runs compared."),
        *estimate_columns("change", "Second over first latency, less 1; null where refused.", "1"),
        float_column("lapse_s", "Time between the first runs of both evaluations.", "s"),
        int_column("repeats", "Other evaluations of this load under like conditions."),
        float_column(
            "drift_share",
            "Share up to which drift between evaluations alone changes the latency, by the "
            "repeats; null where they are too few.",
            "1",
        ),
        text_column("drift", "What the interval of the change holds of drift."),
        text_column("noisy", "Which run has a caveat about noise: first, second, both or ''."),
        text_column("result", "Result: slower, faster, same, unknown (no interval) or refused."),
    ),
    compute=regressions,
    chart=bars(
        ("second_run", "Run"),
        Axis("change", "Change of latency", "share"),
        color="result",
        facet="second",
    ),
)
