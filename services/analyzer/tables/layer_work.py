"""How long layers worked: their kernels' time where kernels were traced, else their own spans'.

Launches return at once on a GPU, so that a layer's own span there is that of its launches; XSP's
layers, whose runs were serialised, lasted as long as their kernels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from services.analyzer.frames import Frames, Run
from services.analyzer.tables.kernel_frames import kernels_of
from services.analyzer.tables.kernel_sums import Traced, lost_notes, replay_notes
from services.analyzer.tables.layer_frames import layer_times, layers_of, predict_ns
from services.analyzer.tables.stacks import (
    Stack,
    deeper_than_layers,
    launch_doubts,
    stacks_beside,
    stacks_of,
)
from services.analyzer.tables.table import text, trace_doubts

KERNELS, LAYER = "kernels", "layer"

TIME_OF_COLUMN = text("time_of", "kernels: their summed time; layer: its own span.")
"""What a table that takes kernels' time where there is some says of each row."""


@dataclass(frozen=True)
class LayerWork:
    """One run's layers that ran, and what they took."""

    #: the run that times are of
    run: Run
    #: as `layers_of` has them, those that some query ran
    layers: pl.DataFrame
    #: place (null: kernels of no known layer), query, time_ns; 0 where a query had none of it
    times: pl.DataFrame
    #: the trimmed mean of predict that these times are a part of
    predict_ns: float | None
    time_of: str = LAYER
    is_launched: bool = False

    @property
    def queries(self) -> int:
        """How many queries its times are over."""
        return self.times["query"].n_unique()


def works_of(frames: Frames) -> list[LayerWork]:
    """Return what layers took, one a plain load: by kernels where some layer has one."""
    found = (_by_kernels(stack) or _by_spans(stack) for stack in stacks_of(frames))
    return [work for work in found if work is not None]


def own_work(run: Run, *, is_launched: bool = False) -> LayerWork:
    """Return what a run's layers took by their own spans, as parts of its own predict."""
    ran = layers_of(run).filter(pl.col("queries") > 0)
    return LayerWork(run, ran, layer_times(run), predict_ns(run), is_launched=is_launched)


def _by_spans(stack: Stack) -> LayerWork | None:
    run = stack.layered
    return None if run is None else own_work(run, is_launched=stack.is_launched)


def _by_kernels(stack: Stack) -> LayerWork | None:
    """Return what layers' kernels took, as parts of the untraced predict (A15); None without one.

    Kernels know a layer's index; of layers that share one, the first has them.
    """
    run = stack.traced
    kernels = kernels_of(run) if run is not None else None
    if run is None or kernels is None or not kernels["layer"].count():
        return None
    layers = _worked(stack, run, kernels)
    numbered = layers.select("place", pl.col("node").cast(pl.Int32).alias("layer"))
    numbered = numbered.filter(pl.col("layer") >= 0).unique("layer", keep="first")
    kernels = kernels.join(numbered, on="layer", how="left")
    spent = kernels.group_by("place", "query").agg(pl.col("duration_ns").sum().alias("time_ns"))
    lost = spent.filter(pl.col("place").is_null()).select("place").head(1)
    pairs = pl.concat([layers.select("place"), lost])
    pairs = pairs.join(spent.select("query").unique(), how="cross")
    times = pairs.join(spent, on=["place", "query"], how="left", nulls_equal=True)
    times = times.with_columns(pl.col("time_ns").fill_null(0)).sort("place", "query")
    return LayerWork(run, layers, times, Traced(stack, run).model_ns, KERNELS)


def _worked(stack: Stack, run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the layers that ran, behind them those that only kernels tell of: a graph's."""
    ran = layers_of(stack.layered or run).filter(pl.col("queries") > 0)
    known = layers_of(run).join(ran, on="node", how="anti")
    nodes = kernels["layer"].unique().cast(pl.Int64).implode()
    more = known.filter(pl.col("node").is_in(nodes)).sort("node", "place")
    more = more.with_columns(
        pl.int_range(ran.height, ran.height + pl.len()).cast(pl.UInt32).alias("place")
    )
    return pl.concat([ran, more], how="diagonal_relaxed")


def work_doubts(frames: Frames, works: Sequence[LayerWork]) -> Iterator[str]:
    """Yield what must be read beside such times."""
    yield from trace_doubts(frames)
    of_spans = {work.run.row.run for work in works if work.time_of == LAYER}
    yield from deeper_than_layers(work.run for work in works if work.time_of == LAYER)
    stacks = stacks_beside(frames)
    yield from launch_doubts(stacks, of_spans)
    by_kernels = {work.run.row.run for work in works if work.time_of == KERNELS}
    for stack in stacks:
        if stack.traced is not None and stack.traced.row.run in by_kernels:
            traced = Traced(stack, stack.traced)
            yield from (*replay_notes(traced), *lost_notes(traced))
