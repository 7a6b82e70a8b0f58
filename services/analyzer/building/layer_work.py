"""The time of layers: their kernel time where kernels were traced, else that of their spans.

Launches return at once on a GPU, so a layer's own span there only covers its launches. In XSP the
runs were serialised, and layers lasted as long as their kernels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from services.analyzer.building.kernel_sums import TracedStack, replay_notes, unattributed_notes
from services.analyzer.building.stacks import (
    Stack,
    deeper_trace_warnings,
    launch_warnings,
    stacks_of,
    stacks_with_serialised,
)
from services.analyzer.building.table import text_column, trace_warnings
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.kernels import kernels_of
from services.analyzer.frames.layers import layer_times, layers_of, predict_ns

KERNELS, LAYER = "kernels", "layer"

TIME_OF_COLUMN = text_column(
    "time_of", "Source of the times. kernels: summed kernel time; layer: the layer's own span."
)
"""The column of tables that use kernel time where there is some."""


@dataclass(frozen=True)
class LayerWork:
    """The layers that ran in one run, and their times."""

    #: the run of the times
    run: Run
    #: the rows of `layers_of` that some query ran
    layers: pl.DataFrame
    #: place (null: kernels of no known layer), query, time_ns; 0 where it did not run in a query
    times: pl.DataFrame
    #: the trimmed mean (ns) of the predict that these times are a part of
    predict_ns: float | None
    time_of: str = LAYER
    is_launched: bool = False

    @property
    def queries(self) -> int:
        """The number of queries measured."""
        return self.times["query"].n_unique()


def works_of(frames: Frames) -> list[LayerWork]:
    """Return the layer times of each plain load: kernel time where some layer has a kernel."""
    works = []
    for stack in stacks_of(frames):
        work = kernel_work(stack)
        if work is None and stack.layered is not None:
            work = own_work(stack.layered, is_launched=stack.is_launched)
        works += [] if work is None else [work]
    return works


def own_work(run: Run, *, is_launched: bool = False) -> LayerWork:
    """Return the time of a run's layers by their own spans, as parts of its own predict."""
    ran = layers_of(run).filter(pl.col("queries") > 0)
    return LayerWork(run, ran, layer_times(run), predict_ns(run), is_launched=is_launched)


def kernel_work(stack: Stack) -> LayerWork | None:
    """Return the kernel time of layers, as parts of the untraced predict (A15); None without one.

    Kernels have the index of their layer; of several layers with that index, the first gets them.
    """
    run = stack.with_kernels
    kernels = kernels_of(run) if run is not None else None
    if run is None or kernels is None or not kernels["layer"].count():
        return None
    layers = layers_of(stack.layered or run).filter(pl.col("queries") > 0)
    # Behind the layers that ran: those that only kernels belong to, as in a CUDA graph.
    nodes = kernels["layer"].unique().cast(pl.Int64).implode()
    in_graphs = (
        layers_of(run)
        .join(layers, on="node", how="anti")
        .filter(pl.col("node").is_in(nodes))
        .sort("node", "place")
    )
    place = pl.int_range(layers.height, layers.height + pl.len()).cast(pl.UInt32).alias("place")
    layers = pl.concat([layers, in_graphs.with_columns(place)], how="diagonal_relaxed")
    numbered = layers.select("place", pl.col("node").cast(pl.Int32).alias("layer"))
    numbered = numbered.filter(pl.col("layer") >= 0).unique(
        "layer", keep="first", maintain_order=True
    )
    kernels = kernels.join(numbered, on="layer", how="left")
    spent = kernels.group_by("place", "query", maintain_order=True).agg(
        pl.col("duration_ns").sum().alias("time_ns")
    )
    unattributed = spent.filter(pl.col("place").is_null()).select("place").head(1)
    pairs = pl.concat([layers.select("place"), unattributed])
    pairs = pairs.join(spent.select("query").unique(maintain_order=True), how="cross")
    times = pairs.join(spent, on=["place", "query"], how="left", nulls_equal=True)
    times = times.with_columns(pl.col("time_ns").fill_null(0)).sort("place", "query")
    return LayerWork(run, layers, times, TracedStack(stack, run).model_ns, KERNELS)


def work_warnings(frames: Frames, works: Sequence[LayerWork]) -> Iterator[str]:
    """Yield the caveats of these times."""
    yield from trace_warnings(frames)
    of_spans = {work.run.row.run for work in works if work.time_of == LAYER}
    yield from deeper_trace_warnings(work.run for work in works if work.time_of == LAYER)
    stacks = stacks_with_serialised(frames)
    yield from launch_warnings(stacks, of_spans)
    by_kernels = {work.run.row.run for work in works if work.time_of == KERNELS}
    for stack in stacks:
        if stack.with_kernels is not None and stack.with_kernels.row.run in by_kernels:
            traced = TracedStack(stack, stack.with_kernels)
            yield from (*replay_notes(traced), *unattributed_notes(traced))
