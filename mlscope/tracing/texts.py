"""Texts that every reader and database accepts: no NUL, JSON without NaN and infinity. Pure."""

import json
import math
from collections.abc import Callable
from typing import Any

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain_text(text: str) -> str:
    """Return a text without NUL characters and lone surrogates, which databases refuse."""
    clean = text.replace("\0", _REPLACEMENT)
    return clean.encode("utf-8", "replace").decode()


def json_text(value: Any) -> bytes:
    """Return a value as a compact JSON text; numbers that JSON lacks become null."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    if "\\u0000" in text or "\\ud" in text:
        text = json.dumps(_plain(_finite(value)), separators=(",", ":"), allow_nan=False)
    return text.encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _mapped(value, _finite)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    return _mapped(value, _plain)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a JSON value with a function applied to its elements and keys."""
    if isinstance(value, dict):
        return {function(key): function(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [function(element) for element in value]
    return value
