"""What tables of kernels share: the columns of a sum, its runs, and its warnings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from mlscope.load.scenarios import COLD
from schemas.batch import SpanKind
from services.analyzer.building.roofs.ceilings import Ceilings, ceilings_of, roof_note
from services.analyzer.building.roofs.roof_position import MEMORY_BOUND_COLUMN
from services.analyzer.building.stacks import (
    HARDWARE_LEVEL,
    SERIALISED,
    Stack,
    stacks_of,
    stacks_with_serialised,
)
from services.analyzer.building.table import (
    Row,
    counter_warnings,
    distinct_name,
    estimate_columns,
    float_column,
    int_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.kernels import answered_work, kernels_of, layer_names, sums
from services.analyzer.frames.layers import predict_ns
from services.analyzer.frames.replayed_counters import CountedKernels, with_counters

NO_KERNELS = "No kernels: no run at level system traced a GPU."
ONLY_COPIES = "No kernels: where a GPU was traced, it only copied and set memory."
OUTSIDE_QUERIES = "No kernels: none of those that were traced belongs to an answered query."
COLD_KERNELS = "Kernels were traced only in cold starts; their layers are in cold_layers."
SERIALISED_KERNELS = "Only serialised runs traced kernels: see kernels and kernels_by_layer."
UNUSED_KERNELS = "Kernels were traced only in runs that this table does not use."
NO_COUNTERS = "No run at level hardware has counters of kernels."

MOST_UNATTRIBUTED = 0.005
"""The share of kernel time without a layer above which a caveat reports it."""

COUNTER_COLUMNS = (
    float_column("flops", "Floating-point operations per query; a multiply-add is 2.", "FLOP"),
    float_column("dram_read_bytes", "Bytes read from DRAM per query.", "By"),
    float_column("dram_write_bytes", "Bytes written to DRAM per query.", "By"),
    float_column("occupancy", "Achieved occupancy, weighted by kernel time.", "%"),
    float_column("counted", "Share of the kernel time whose kernels have all counters.", "1"),
    float_column(
        "intensity",
        "Arithmetic intensity: FLOP per byte read or written; null without bytes.",
        "FLOP/By",
    ),
    float_column("throughput", "Arithmetic throughput: FLOP per second of kernel time.", "FLOP/s"),
    float_column("roof", "Attainable throughput of the device at this intensity.", "FLOP/s"),
    MEMORY_BOUND_COLUMN,
)

SUM_COLUMNS = (
    int_column("queries", "Queries measured."),
    float_column("calls", "Kernels per query.", "1"),
    *estimate_columns("time", "Trimmed mean of the summed kernel time per query."),
    *COUNTER_COLUMNS,
)
"""The columns of `sums`, which follow those that name a group of kernels."""


@dataclass(frozen=True)
class TracedStack:
    """A stack with kernels: its run at level system, with counters and the roof of its device."""

    stack: Stack
    run: Run

    @property
    def counted(self) -> CountedKernels:
        """Its kernels with their counters; computed once a run."""
        return self.run.cache.get(
            "counted kernels", lambda: with_counters(self.run, self.stack.counted)
        )

    @property
    def ceilings(self) -> Ceilings:
        """The roof of its device."""
        return ceilings_of(self.run.row)

    @cached_property
    def names(self) -> dict[int | None, str]:
        """Names of the layers by index, of the stack's run at level framework too."""
        layered = self.stack.layered
        return (layer_names(layered) if layered else {}) | layer_names(self.run)

    @property
    def model_ns(self) -> float | None:
        """Trimmed mean of predict (ns) in the stack's run of whole queries."""
        run = self.stack.predicted
        return predict_ns(run) if run else None

    @property
    def kernels_ns(self) -> float:
        """Trimmed mean of the summed time of a query's kernels (ns); 0 where none ran."""
        return float(sum(row["time"] for row in self.sums()))

    def sums(self, *by: str) -> list[dict[str, Any]]:
        """Return the sums of its kernels (`frames.kernels.sums`); computed once a run and `by`."""
        return self.run.cache.get(
            ("kernel sums", by), lambda: sums(self.counted.kernels, by, self.ceilings)
        )


_KERNELS_OF_VARIANTS = {
    frozenset({COLD}): COLD_KERNELS,
    frozenset({SERIALISED}): SERIALISED_KERNELS,
}
"""Why a table of ordinary runs is empty, by the variants of all runs with kernels."""

ONLY_REPLAY = "The only run with kernels is a replay for counters, which has no latencies."


def without_replays(traced: Sequence[TracedStack]) -> list[TracedStack]:
    """Return the stacks whose kernels ran in ordinary queries, not in a replay for counters."""
    return [stack for stack in traced if not stack.stack.is_replay]


def no_kernels(frames: Frames) -> str:
    """Return why a table of kernels is empty: in which runs they are, or what ran instead."""
    # A replay for counters traces nothing.
    traced = [run for run in frames.measured if run.row.level != HARDWARE_LEVEL]
    if variants := frozenset(run.row.variant for run in traced if kernels_of(run).height):
        return _KERNELS_OF_VARIANTS.get(variants, UNUSED_KERNELS)
    is_kernel = pl.col("kind") == int(SpanKind.KERNEL)
    if any(run.device_work.filter(is_kernel).height for run in traced):
        return OUTSIDE_QUERIES
    return ONLY_COPIES if any(answered_work(run).height for run in traced) else NO_KERNELS


def no_timed_kernels(frames: Frames, traced: Sequence[TracedStack]) -> str:
    """Return why a table of kernel times is empty; `traced` stacks can only be replays then."""
    return ONLY_REPLAY if traced else no_kernels(frames)


def no_counters(frames: Frames, traced: Sequence[TracedStack]) -> str:
    """Return why a table of counters is empty; the `traced` stacks, if any, have none."""
    return NO_COUNTERS if traced else no_kernels(frames)


def traced_stacks(frames: Frames) -> list[TracedStack]:
    """Return the plain stacks that have kernels."""
    return _with_kernels(stacks_of(frames))


def traced_with_serialised(frames: Frames) -> list[TracedStack]:
    """Return the plain stacks that have kernels, followed by the serialised ones."""
    return _with_kernels(stacks_with_serialised(frames))


def _with_kernels(stacks: Iterable[Stack]) -> list[TracedStack]:
    return [
        TracedStack(stack, stack.with_kernels) for stack in stacks if stack.with_kernels is not None
    ]


def verdict_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that a verdict is about: of the first serialised run, else of the first run.

    A layer's own time compares with its kernel time only where each launch is waited for.
    """
    first = next((row for row in rows if row["variant"] == SERIALISED), rows[0])
    return [row for row in rows if row["run"] == first["run"]]


def layer_label(row: Row, rows: Iterable[Row], name: str = "name") -> str:
    """Return a row's layer for a verdict about `rows`; its index None means an unknown one.

    `name` is the column with the layer's name; the index is in the column `layer`.
    """
    if row["layer"] is None:
        return "no known layer"
    return f"layer {distinct_name(row, rows, name=name)}"


def run_label(row: dict[str, Any]) -> str:
    """Return the name of a row's run for a verdict, with its variant."""
    return f"{row['run']}, {row['variant']}" if row["variant"] else str(row["run"])


def kernel_warnings(frames: Frames, traced: Sequence[TracedStack]) -> list[str]:
    """Return the caveats of sums of kernels: `counter_warnings`, and those of the traced stacks."""
    warnings = counter_warnings(frames)
    for stack in traced:
        warnings += [*replay_notes(stack), *stack.counted.notes, *unattributed_notes(stack)]
        if stack.counted.has_counters and (note := roof_note(stack.run.row)):
            warnings.append(note)
    return warnings


def replay_notes(traced: TracedStack) -> Iterator[str]:
    """Yield a caveat where the times are those of a replay for counters."""
    if traced.stack.is_replay:
        yield f"{traced.run.row.run}: a replay for counters: its kernel times are not latencies"


def unattributed_notes(traced: TracedStack) -> Iterator[str]:
    """Yield the share of kernel time without a known layer, if above `MOST_UNATTRIBUTED`."""
    share = traced.run.unattributed_share
    if share > MOST_UNATTRIBUTED:
        yield f"{traced.run.row.run}: {share:.2%} of the kernel time belongs to no known layer"


def without_counters(traced: Sequence[TracedStack]) -> str:
    """Return the end of a verdict where kernels have times but no counters, else ''."""
    if any(stack.counted.has_counters for stack in traced):
        return ""
    return " No run at level hardware counted their operations and bytes."
