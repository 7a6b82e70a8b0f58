"""A value that somebody typed, or sent, as YAML: a number, a word, a list on one line. Pure."""

from typing import Any

import yaml

MOST_CHARACTERS = 1 << 16
"""A longer text takes its reader's process too long."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_value(text: str) -> Any:
    """Return the value of a YAML `text`.

    Raises ValueError for a text that is none, is too long, or has aliases: a few that are nested
    make a value of billions.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"found {len(text)} characters, allowed: up to {MOST_CHARACTERS}")
    try:
        if "*" in text and any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _LOADER)
        ):
            raise ValueError(f"found {text[:40]}, allowed: a value without aliases (*NAME)")
        return yaml.load(text, _LOADER)  # noqa: S506 (a safe loader)
    except (yaml.YAMLError, RecursionError):
        raise ValueError(f"found {text[:40]}, allowed: a number, a word or a YAML value") from None
