"""Levels are names on the wire, cumulative numbers inside; the papers' names are taken."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.level import Level, LevelField, level_of

_FIELD = TypeAdapter(LevelField)


@pytest.mark.parametrize("level", Level)
def test_a_level_travels_as_its_name(level: Level) -> None:
    name = _FIELD.dump_python(level, mode="json")
    assert name == level.name.lower()
    assert _FIELD.validate_python(name) is level
    assert level_of(int(level)) is level


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("NO_TRACE", Level.NONE),
        ("FRAMEWORK_TRACE", Level.FRAMEWORK),
        ("ML_LIBRARY_TRACE", Level.LIBRARY),
        ("SYSTEM_LIBRARY_TRACE", Level.SYSTEM),
        ("Full_Trace", Level.FULL),
        (" model ", Level.MODEL),
        ("", Level.NONE),
    ],
)
def test_the_papers_names_are_taken(said: str, meant: Level) -> None:
    assert level_of(said) is meant


@pytest.mark.parametrize("value", ["deep", 8, -1, True, None, 2.0, []])
def test_what_is_no_level_is_told_which_there_are(value: Any) -> None:
    with pytest.raises(ValueError, match="application, model, framework"):
        level_of(value)
    with pytest.raises(ValidationError):
        _FIELD.validate_python(value)


def test_a_deeper_level_is_greater() -> None:
    assert Level.NONE < Level.MODEL < Level.FRAMEWORK < Level.FULL


def test_the_numbers_that_the_database_holds_never_change() -> None:
    names = ["none", "application", "model", "framework", "library", "system", "hardware", "full"]
    assert [level.name.lower() for level in Level] == names
    assert [level.value for level in Level] == list(range(8))
