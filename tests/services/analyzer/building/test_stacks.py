"""Stacks: what is timed otherwise than plainly stands in none of the main tables."""

import pytest

from services.analyzer.building.stacks import stacks_of
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.traced import counter_run, kernel_run, layer_run


@pytest.mark.parametrize("variant", ["serialised", "cold", "counters"])
def test_only_plain_runs_are_stacked_unless_asked(variant: str) -> None:
    plain = [layer_run((0, "a", 900)), kernel_run((0, "k", 10))]
    other = layer_run((0, "a", 5000), run="v", session="v", variant=variant)
    frames = frames_in({"runs": [other, *plain]})
    assert [stack.timed.row.run for stack in stacks_of(frames)] == ["l"]
    asked = stacks_of(frames, ("", variant))
    assert [stack.timed.row.run for stack in asked] == ["v", "l"]


def test_a_replays_counters_are_still_read() -> None:
    replay = counter_run((0, "k", 1, 1.0, 1, 1, 1.0), session="c", variant="counters")
    (stack,) = stacks_of(frames_in({"runs": [kernel_run((0, "k", 10)), replay]}))
    assert [run.row.run for run in stack.counted] == ["h"]
