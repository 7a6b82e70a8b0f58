"""JSON objects of any shape as a frame of a known one: a value of another kind is null. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from mlscope.tracing.texts import plain_text


def frame_of(body: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the objects of the JSON list that a text begins with. Raises ValueError.

    What is no object is left out, as are bytes that are no UTF-8; whatever follows is not read.
    """
    whole = pl.Struct(dict(schema))
    try:
        told, _ = json.JSONDecoder().raw_decode(body.decode("utf-8", "replace"))
        rows = [fitted(each, whole) for each in told if isinstance(each, dict)]
    except RecursionError:
        raise ValueError("values lie too deep in each other") from None
    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def fitted(value: Any, kind: Any) -> Any:
    """Return a value as one of a Polars type; texts take what is none as JSON."""
    if value is None:
        return None
    if isinstance(kind, pl.Struct):
        fields: Sequence[Any] = kind.fields
        known = isinstance(value, dict)
        return {f.name: fitted(value.get(f.name), f.dtype) for f in fields} if known else None
    if isinstance(kind, pl.List):
        return [fitted(each, kind.inner) for each in value] if isinstance(value, list) else None
    if kind == pl.String:
        return plain_text(value) if isinstance(value, str) else json.dumps(value)
    return _number(value, kind)


def _number(value: Any, kind: Any) -> int | float | None:
    """Return a number, also of a text; null for one that the type does not hold."""
    try:
        number = float(value) if kind == pl.Float64 else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if kind == pl.Float64 or -(1 << 63) <= number < 1 << 63 else None
