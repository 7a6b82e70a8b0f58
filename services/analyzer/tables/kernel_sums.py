"""What tables of kernels share: the columns of a sum, the runs it is from, and its doubts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlscope.load.scenarios import COLD
from services.analyzer.ceilings import Ceilings, ceiling_note, ceilings_of
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.kernel_frames import (
    Counted,
    counted,
    kernels_of,
    layer_names,
    sums,
)
from services.analyzer.tables.layer_frames import predict_ns
from services.analyzer.tables.stacks import SERIALISED, Stack, stacks_beside, stacks_of
from services.analyzer.tables.table import estimate, real, trace_doubts, truth, whole

NO_KERNELS = "No kernels: no run at level system traced a GPU."
COLD_KERNELS = "Kernels were traced in cold starts alone, whose layers are in cold_layers."
NO_COUNTERS = "No run at level hardware has counters of kernels."

MOST_UNATTRIBUTED = 0.005
"""Share of kernels' time without a layer above which a caveat says so."""

COUNTER_COLUMNS = (
    real("flops", "Floating-point operations a query, 2 a multiply-add.", "FLOP"),
    real("dram_read_bytes", "Bytes read from DRAM a query.", "By"),
    real("dram_write_bytes", "Bytes written to DRAM a query.", "By"),
    real("occupancy", "Achieved occupancy, weighted by latency.", "%"),
    real("counted", "Share of the time whose kernels have all counters.", "1"),
    real("intensity", "FLOP over bytes read and written; null without bytes.", "FLOP/By"),
    real("throughput", "FLOP over the kernels' time.", "FLOP/s"),
    real("roof", "What its device attains at this intensity.", "FLOP/s"),
    truth("memory_bound", "Whether intensity is below the ideal one; null where unknown."),
)

SUM_COLUMNS = (
    whole("queries", "Queries it is over."),
    real("calls", "Kernels of it a query.", "1"),
    *estimate("time", "Trimmed mean of their summed time a query."),
    *COUNTER_COLUMNS,
)
"""What `sums` says of a group of kernels."""


@dataclass(frozen=True)
class Traced:
    """A stack with kernels: its run of level system, the counters, and the roof."""

    stack: Stack
    run: Run

    @cached_property
    def counted(self) -> Counted:
        """Its kernels, counters joined; made once a run."""
        key = "_counted"
        kept = self.run.__dict__
        if key not in kept:
            kept[key] = counted(self.run, self.stack.counted)
        found: Counted = kept[key]
        return found

    @property
    def ceilings(self) -> Ceilings:
        """The roof of its device."""
        return ceilings_of(self.run.row)

    @cached_property
    def names(self) -> dict[int | None, str]:
        """Layers' names by index, of the run that tells of layers."""
        layered = self.stack.layered
        return (layer_names(layered) if layered else {}) | layer_names(self.run)

    @property
    def model(self) -> Run | None:
        """The run that tells of predict; a replay for counters tells of no latency."""
        return None if self.stack.is_replay else self.stack.model

    @property
    def model_ns(self) -> float | None:
        """Trimmed mean of predict, of the run that tells of it."""
        return predict_ns(self.model) if self.model else None

    def sums(self, *by: str) -> list[dict[str, Any]]:
        """Return the sums of its kernels; several tables ask for the same."""
        kept = self.run.__dict__.setdefault("_sums", {})
        if by not in kept:
            kept[by] = sums(self.counted.kernels, by, self.ceilings)
        found: list[dict[str, Any]] = kept[by]
        return found


REPLAY_ALONE = "A replay for counters tells of no latency that its kernels are a part of."


def timed_in(traced: Sequence[Traced]) -> list[Traced]:
    """Return those whose kernels lie in queries as they were, not in a replay for counters."""
    return [each for each in traced if not each.stack.is_replay]


def no_kernels(frames: Frames) -> str:
    """Return why a table of kernels is empty: they are of cold starts alone, or not there."""
    cold = (run for run in frames.measured if run.row.variant == COLD)
    return COLD_KERNELS if any(kernels_of(run).height for run in cold) else NO_KERNELS


def traced_of(frames: Frames) -> list[Traced]:
    """Return the stacks that have kernels."""
    return _traced_in(stacks_of(frames))


def traced_beside(frames: Frames) -> list[Traced]:
    """Return the plain stacks that have kernels, and behind them the serialised ones."""
    return _traced_in(stacks_beside(frames))


def _traced_in(stacks: Iterable[Stack]) -> list[Traced]:
    return [Traced(s, s.traced) for s in stacks if s.traced is not None]


def telling(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the first serialised run, else of the first one, for a verdict.

    Only where each launch is waited for do a layer's own time and its kernels' compare.
    """
    first = next((row for row in rows if row["variant"] == SERIALISED), rows[0])
    return [row for row in rows if row["run"] == first["run"]]


def run_named(row: dict[str, Any]) -> str:
    """Return how a verdict calls a row's run."""
    return f"{row['run']}, {row['variant']}" if row["variant"] else str(row["run"])


def kernel_doubts(frames: Frames, traced: Sequence[Traced]) -> list[str]:
    """Return what must be read beside sums of kernels."""
    return [*trace_doubts(frames), *(note for each in traced for note in _notes(each))]


def _notes(traced: Traced) -> Iterator[str]:
    yield from replay_notes(traced)
    yield from traced.counted.notes
    yield from lost_notes(traced)
    if traced.counted.has_counters and (note := ceiling_note(traced.run.row)):
        yield note


def replay_notes(traced: Traced) -> Iterator[str]:
    """Yield that times are those of a replay, where they are."""
    if traced.stack.is_replay:
        yield f"{traced.run.row.run}: its times are those of a replay for counters: no latencies"


def lost_notes(traced: Traced) -> Iterator[str]:
    """Yield how much of the kernels' time has no known layer, where it is worth a word."""
    lost = traced.run.unattributed_share
    if lost > MOST_UNATTRIBUTED:
        yield f"{traced.run.row.run}: {lost:.2%} of the kernels' time belongs to no known layer"


def without_counters(traced: Sequence[Traced]) -> str:
    """Return the verdict's end where kernels have times and no counters."""
    told = any(each.counted.has_counters for each in traced)
    return "" if told else " No run at level hardware counted what they compute and move."
