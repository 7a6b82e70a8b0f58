"""Layer latency (A3): the distribution of each layer's time over queries, in execution order."""

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, boxes
from services.analyzer.building.stacks import (
    depth_warnings,
    launch_warnings,
    launched_runs,
    layered_runs,
    stacks_with_serialised,
)
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    columns_in,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    share,
    text_column,
    trace_warnings,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of, no_layers, trimmed_delay_notes

SHORT_NS = 1e6
"""Layers below 1 ms are counted, as in XSP."""


def layer_latency(frames: Frames) -> Table:
    """Return a row for each layer that ran: its trimmed mean and five-number summary."""
    runs = list(layered_runs(frames))
    rows = []
    for run in runs:
        layers = layers_of(run).rename({"place": "index"})
        ran = layers.filter(layers["queries"] > 0).select(columns_in(layers, ANALYSIS.columns))
        rows += [{**run_cells(run.row), **row} for row in ran.to_dicts()]
    caveats = [*trace_warnings(frames), *depth_warnings(frames), *trimmed_delay_notes(runs)]
    caveats += launch_warnings(stacks_with_serialised(frames))
    verdict = no_layers(frames)
    if rows:
        times = [row["time"] for row in of_first_run(rows)]
        short = sum(time < SHORT_NS for time in times)
        top = sorted(times, reverse=True)[:5]
        part = format_share(share(sum(top), sum(times)))
        takes = verb(short, "takes", "take")
        slowest = "the slowest takes" if len(top) == 1 else f"the slowest {len(top)} take"
        to_launch, total_time = "", "the layers' time"
        if rows[0]["run"] in launched_runs(frames):
            to_launch, total_time = " to launch", "the time to launch"
        verdict = (
            f"{short} of {many(len(times), 'layer')} {takes} less than 1 ms{to_launch} in "
            f"{rows[0]['run']}; {slowest} {part} of {total_time}."
        )
    return make_table(ANALYSIS, rows, verdict, caveats)


ANALYSIS = Analysis(
    name="layer_latency",
    id="A3",
    title="Latency of layers (A3)",
    source=(
        "XSP A3, and MLModelScope's box plot of a layer's summed spans per query. Quartiles by "
        "linear interpolation; the trimmed mean's interval by winsorised variance."
    ),
    columns=(
        *RUN_COLUMNS,
        int_column("index", "Position in execution order, from 0."),
        text_column("name", "The layer's name."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        text_column("type", "The layer's type."),
        int_column("queries", "Queries measured."),
        *estimate_columns("time", "Trimmed mean of its time per query."),
        float_column("min", "Minimum."),
        float_column("q1", "First quartile."),
        float_column("median", "Median."),
        float_column("q3", "Third quartile."),
        float_column("max", "Maximum."),
    ),
    compute=layer_latency,
    chart=boxes(("index", "Layer"), Axis("", "Time per query", "ns"), "type", "name"),
)
