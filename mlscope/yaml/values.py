"""A value that somebody typed, or sent, as YAML: a number, a word, a list on one line. Pure."""

from typing import Any

from mlscope.yaml.bounds import READING_ERRORS, check_bounds, loader

MOST_CHARACTERS = 1 << 16
"""A longer text takes its reader's process too long."""
_MOST_DEPTH = 32


def yaml_value(text: str) -> Any:
    """Return the value of a YAML `text`.

    Raises ValueError for a text that is none, is too long, is too deep, or has aliases: a few that
    are nested make a value of billions.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"found {len(text)} characters, allowed: up to {MOST_CHARACTERS}")
    try:
        check_bounds(text, _MOST_DEPTH, with_aliases=False)
        return loader(text).get_single_data()
    except READING_ERRORS:
        raise ValueError(
            f"found {text[:40]}, allowed: a number, a word or a YAML value without aliases (*NAME)"
        ) from None
