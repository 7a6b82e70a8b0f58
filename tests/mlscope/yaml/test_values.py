"""Values in YAML that anybody may send cost no more than their text."""

import pytest

from mlscope.yaml.values import MOST_CHARACTERS, yaml_value


def test_a_value_is_read_as_yaml_says() -> None:
    texts = ("20", "0.5", "yes", "cuda:0", "[1, 2]", "{a: 2 * 3}", "2 * 3")
    values = (20, 0.5, True, "cuda:0", [1, 2], {"a": "2 * 3"}, "2 * 3")
    assert tuple(map(yaml_value, texts)) == values


@pytest.mark.parametrize(
    "text",
    [
        "[1",
        "*x",
        "2026-99-99",
        "[&a [1, 1], &b [*a, *a], [*b, *b]]",
        "[" * 60_000,
        "- " * 30_000,
        "{a: " * 16_000,
        "? " * 30_000,
        "1" + ":1" * 30_000,
        "0x" + "f" * 30_000,
        "1:1" + ":1" * 300 + ".0",
        "!!bool x",
        "!!int ''",
        "!!timestamp x",
        "{" + "<<: {a: 1}, " * 101 + "}",
        "%TAG !a! b\n" * 101 + "--- 1",
        "x" * (MOST_CHARACTERS + 1),
    ],
)
def test_what_is_none_too_much_or_has_aliases_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        yaml_value(text)
