"""The levels that are measured for a level asked for."""

import pytest

from schemas.level import Level
from services.scheduler.placement.levels import levels_of


@pytest.mark.parametrize(
    ("asked", "deepest", "levels"),
    [
        (Level.SYSTEM, Level.SYSTEM, ["MODEL", "FRAMEWORK", "LIBRARY", "SYSTEM"]),
        (Level.SYSTEM, Level.FRAMEWORK, ["MODEL", "SYSTEM"]),
        (Level.SYSTEM, Level.MODEL, ["MODEL", "SYSTEM"]),
        (Level.FULL, Level.FULL, ["MODEL", "FRAMEWORK", "LIBRARY", "FULL"]),
        (Level.FRAMEWORK, Level.NONE, ["MODEL", "FRAMEWORK"]),
    ],
)
def test_levels_an_agent_cannot_trace_are_left_out(
    asked: Level, deepest: Level, levels: list[str]
) -> None:
    assert [level.name for level in levels_of(asked, deepest)] == levels
