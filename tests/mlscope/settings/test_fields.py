"""A declared field holds its variable and meaning, and its default, made anew where it must be."""

from dataclasses import dataclass, fields

from mlscope.settings.fields import made_setting, setting
from mlscope.settings.values import names_of, text_as_it_is


@dataclass(frozen=True)
class Example:
    """Two settings."""

    host: str = setting("HOST", text_as_it_is, "here", "where it listens")
    names: list[str] = made_setting("NAMES", names_of, list, "what it offers")  # noqa: RUF009


def test_a_field_knows_its_variable_and_its_meaning() -> None:
    declared = [
        (field.metadata["variable"], field.metadata["meaning"]) for field in fields(Example)
    ]
    assert declared == [
        ("MLSCOPE_HOST", "where it listens"),
        ("MLSCOPE_NAMES", "what it offers"),
    ]


def test_a_made_default_is_not_shared() -> None:
    assert Example().host == "here"
    assert Example().names is not Example().names
