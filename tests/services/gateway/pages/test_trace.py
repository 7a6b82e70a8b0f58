"""Which run the page of a trace shows."""

from typing import Any

from schemas.level import Level
from schemas.status import EvaluationStatus, RunStatus
from schemas.trace import TraceLane
from services.gateway.pages.trace import longest_by_level, trace_view
from services.gateway.rendering import html_of

E = "0123456789abcdef"


def status(*spans: int, state: str = "analyzed") -> EvaluationStatus:
    """Return an evaluation whose runs r0, r1, … have so many spans."""
    runs = tuple(
        RunStatus(
            run=f"r{n}",
            session="s0",
            agent="a1",
            scenario="online",
            level=Level.FRAMEWORK,
            batch_size=1,
            queries=1,
            spans=count,
        )
        for n, count in enumerate(spans)
    )
    fields = {"evaluation": E, "state": state, "model": "tiny", "requested_ns": 0, "runs": runs}
    return EvaluationStatus.model_validate(fields)


def test_the_run_with_most_spans_is_shown_unless_one_is_named() -> None:
    assert trace_view(status(1, 9, 3), "").run == status(1, 9, 3).runs[1]
    assert trace_view(status(1, 9, 3), "r0").run == status(1, 9, 3).runs[0]


def test_a_run_that_does_not_exist_is_said_so() -> None:
    view = trace_view(status(1), "gone")
    assert view.run is None
    assert view.note == "This evaluation has no run gone; choose one of the list."
    assert trace_view(status(1), "r0").note == ""


def test_an_evaluation_without_runs_has_nothing_to_show() -> None:
    view = trace_view(status(), "")
    assert view.run is None
    assert view.note == ""
    assert view.title == "Trace tiny"


def test_a_trace_is_live_until_its_evaluation_ends() -> None:
    assert trace_view(status(1, state="running"), "").is_live
    assert not trace_view(status(1), "").is_live


def test_the_run_that_is_measured_is_shown_live() -> None:
    running = status(0, 9, 0, state="running")
    states = ("planned", "recorded", "started")
    runs = [
        run.model_copy(update={"state": state})
        for run, state in zip(running.runs, states, strict=True)
    ]
    running = running.model_copy(update={"runs": tuple(runs)})
    assert (trace_view(running, "").run, trace_view(running, "").is_live) == (runs[2], True)
    assert (trace_view(running, "r1").run, trace_view(running, "r1").is_live) == (runs[1], False)
    assert trace_view(status(0, 0, state="running"), "").run == status(0, 0).runs[0]


def test_the_longest_spans_of_each_level_are_listed_without_tiles_and_counters() -> None:
    lanes = [
        TraceLane(lane=0, key="host/layer/1", group="host", level="layer", title="layer"),
        TraceLane(lane=1, key="device/0/7", group="device", level="kernel", title="stream 7"),
        TraceLane(lane=2, key="counter/power/0", group="counter", level="W", title="power"),
    ]
    columns: dict[str, list[Any]] = {
        "lane": [0, 0, 1, 1, 2],
        "start": [0.0, 10.0, 20.0, 30.0, 40.0],
        "duration": [5.0, 9.0, 7.0, 99.0, 0.0],
        "name": ["conv", "gemm", "kernel", "tile", "power"],
        "id": [1, 2, 3, 4, 5],
        "kind": [0, 0, 0, 0, 0],
        "query": [-1, -1, -1, -1, -1],
        "count": [1, 1, 1, 40, 1],
    }
    levels = longest_by_level(lanes, columns)
    listed = [(level, [span.name for span in spans]) for level, spans in levels]
    assert listed == [("layer", ["gemm", "conv"]), ("kernel", ["kernel"])]
    view = trace_view(status(1), "").with_levels(levels)
    assert view.levels == levels
    assert trace_view(status(1), "").with_levels((), "no analyzer").note == "no analyzer"


def test_a_query_is_listed_as_the_timeline_calls_it() -> None:
    lanes = [TraceLane(lane=0, key="load/0", group="load", level="queries", title="queries")]
    columns: dict[str, list[Any]] = {
        "lane": [0, 0, 0],
        "start": [0.0, 9.0, 13.0],
        "duration": [5.0, 4.0, 3.0],
        "id": [-1, -4, -7],
        "name": ["answered", "failed", "late"],
        "count": [1, 1, 1],
        "kind": [7, 7, 7],
        "query": [84, 85, 86],
    }
    (level,) = longest_by_level(lanes, columns)
    assert [span.name for span in level.spans] == ["query 84", "query 85, failed", "late"]


def test_a_run_that_is_measured_has_no_count_of_spans_yet() -> None:
    running = status(0, 9, state="running")
    started = running.runs[0].model_copy(update={"state": "started"})
    view = trace_view(running.model_copy(update={"runs": (started, running.runs[1])}), "")
    html = html_of(view)
    assert "framework · started</option>" in html
    assert "framework · 9 spans captured</option>" in html
