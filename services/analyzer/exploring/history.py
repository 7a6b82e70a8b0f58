"""Every measurement of a load over time, and where it certainly became slower or faster."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mlscope.counts import be, many
from mlscope.quantities import shown
from mlscope.statistics import LEAST_CHANGE, REPEATS_READ, certain_change, repeat_limit
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, Chart
from services.analyzer.building.charts.parts import names, number, tips, view
from services.analyzer.building.table import estimate_columns, float_column, make_table, text_column
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    estimate_cells,
    estimate_in,
    place_cells,
    system_of,
)

_CERTAIN = f"by {LEAST_CHANGE:.0%} or more with intervals that do not overlap"
_TOO_FEW = "fewer than 3 measurements of one version came before both"
_NOTHING = "Nothing was measured yet: `mlscope run MODEL` measures one."


def history(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return all measurements, oldest first, each compared with the one before of its load."""
    series: dict[tuple[object, ...], list[Cells]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: str(row["requested"])):
        if row["latency_ns"] is None:
            continue
        key = (row["model"], system_of(row), row["scenario"], row["parameters"], row["batch_size"])
        series[*key, row["statistic"]].append(row)
    has_many_models = len({row["model"] for row in rows}) > 1
    cells: list[Cells] = []
    # The loads that were measured most often come first: they have a history.
    for measured in sorted(series.values(), key=len, reverse=True):
        for place, row in enumerate(measured):
            change, drift = _change_at(place, measured)
            load = f"{row['scenario']}, batch {row['batch_size']}"
            cells.append(
                {
                    "requested": row["requested"],
                    **place_cells(row),
                    "system": system_of(row),
                    "load": f"{row['model']}, {load}" if has_many_models else load,
                    "model_version": row["model_version"],
                    "framework_version": row["framework_version"],
                    **estimate_cells("latency", row, "latency_ns"),
                    "change": change or None,
                    "drift_share": drift,
                    "note": f"{change:+.0%}" if change else "",
                }
            )
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    return make_table(EXPLORATION, cells, _verdict(cells, len(series)))


def _change_at(place: int, measured: Sequence[Cells]) -> tuple[float, float | None]:
    """Return the certain change of a measurement since the one before, and the limit of drift.

    The change is 0 without one. The measurements before both, those of one version together, say
    up to which share drift alone changes a load; None where they are too few.
    """
    if place == 0:
        return 0.0, None
    earlier = measured[max(0, place - 1 - REPEATS_READ) : place - 1]
    drift = repeat_limit(
        ((row["model_version"], row["framework_version"]), row["latency_ns"])
        for row in earlier
        if row["latency_ns"] > 0
    )
    before, now = (estimate_in(measured[at], "latency_ns") for at in (place - 1, place))
    return certain_change(before, now, drift), drift


def _verdict(cells: Sequence[Cells], loads: int) -> str:
    """Return how often one of this number of `loads` became slower, or how many became faster."""
    if len(cells) == loads:
        which = f"Each of {loads} loads" if loads > 1 else "The load"
        return f"{which} was measured once: nothing to compare."
    slower = [row for row in cells if (row["change"] or 0.0) > 0]
    if not slower:
        faster = sum((row["change"] or 0.0) < 0 for row in cells)
        others = f", {faster} {be(faster)} faster" if faster else ""
        measurements = many(len(cells), "measurement")
        return f"{measurements}: none is slower{others} than the one before {_CERTAIN}."
    last = max(slower, key=lambda row: str(row["requested"]))
    change = shown(last["change"], "share")
    unknown = sum(row["drift_share"] is None for row in slower)
    doubt = f"; {unknown} of these may be drift: {_TOO_FEW}" if unknown else ""
    return (
        f"{many(len(slower), 'time')} a load became slower {_CERTAIN}, last "
        f"{last['load']} with {last['system']}: {change} on {last['requested'][:10]}{doubt}."
    )


def _chart() -> Chart:
    """Return a line over time for each load, with intervals and the certain changes."""
    axis = Axis("latency", "Latency of a query", "ns")
    when = {
        "field": "requested",
        "type": "temporal",
        "title": "Requested",
        "axis": {
            "labelOverlap": True,
            "labelSeparation": 8,
            "labelAngle": 0,
            "format": "%d %b %H:%M",
            "tickCount": 5,
        },
        # Labels of the first and last points stand beside the axis, not across its numbers.
        "scale": {"padding": 18},
    }
    up = number(axis, scale={"zero": False, "padding": 22})
    place = {"x": when, "y": up, "color": names("load", "Load")}
    ends = {"y": number(axis._replace(field=axis.low), scale=up["scale"])}
    shown_fields = tips(
        "requested", "latency", "latency_low", "latency_high", "load", "change", "evaluation"
    )
    note = {"x": when, "y": up, "text": names("note"), "order": {"field": "change"}}
    return view(
        "system",
        {"y": "independent"},
        height=260,
        layer=[
            {
                "mark": {"type": "rule", "style": "whisker"},
                "encoding": {"x": when, **ends, "y2": {"field": axis.high}},
            },
            {
                "mark": {"type": "line", "point": True},
                "encoding": {**place, "tooltip": shown_fields},
            },
            {
                "transform": [{"filter": "isValid(datum.change)"}],
                "mark": {"type": "point", "style": "best"},
                "encoding": {"x": when, "y": up},
            },
            # A line comes from below to what is slower, and from above to what is faster.
            *(
                {
                    "transform": [{"filter": f"datum.change {sign} 0"}],
                    "mark": {"type": "text", "style": "note", "dy": offset_px},
                    "encoding": note,
                }
                for sign, offset_px in ((">", -16), ("<", 18))
            ),
        ],
    )


EXPLORATION = Exploration(
    name="history",
    title="History and regressions",
    source=(
        "Every measurement of a load: model, framework, system, scenario, parameters and batch "
        "size. A change is marked where the intervals do not overlap, it is 3% or more, and it is "
        "beyond the drift between earlier measurements of one version, where there are three "
        "(ISO 5725-6's repeatability limit of their logarithms)."
    ),
    columns=(
        text_column("requested", "When the evaluation was requested, UTC."),
        *estimate_columns("latency", "Latency of a query: the statistic that the scenario names."),
        float_column(
            "change", "Share by which it certainly changed since the one before; else null.", "1"
        ),
        float_column(
            "drift_share",
            "Share up to which drift between evaluations alone changes it; null where unknown.",
            "1",
        ),
        text_column("note", "The change as a text; '' without one."),
        text_column("load", "Scenario and batch size."),
        text_column("system", "Framework, agent and device."),
        text_column("model_version", "Version of the model."),
        text_column("framework_version", "Version of the framework."),
        *PLACE_COLUMNS,
    ),
    compute=history,
    chart=_chart(),
    is_history=True,
)
