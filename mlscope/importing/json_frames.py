"""JSON objects of any shape as a frame of a given schema: values of other types become null. Pure.

Slower than Polars' own readers, which refuse a whole file for one value of another type.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from mlscope.tracing.texts import plain_text


def frame_of(body: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the objects of the JSON list that a text begins with. Raises ValueError.

    `body`: the text; elements that are not objects and bytes that are not UTF-8 are left out, and
    the text after the list is not read. `schema`: Polars types by column.
    """
    row_type = pl.Struct(dict(schema))
    try:
        elements, _ = json.JSONDecoder().raw_decode(body.decode("utf-8", "replace"))
        rows = [fitted(element, row_type) for element in elements if isinstance(element, dict)]
    except RecursionError:
        raise ValueError("values are nested too deep") from None
    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def fitted(value: Any, data_type: Any) -> Any:
    """Return a value as one of a Polars type, null where it does not fit.

    A text column holds any value, as JSON; a number may be given as a text.
    """
    if value is None:
        return None
    if isinstance(data_type, pl.Struct):
        fields: Sequence[Any] = data_type.fields
        if not isinstance(value, dict):
            return None
        return {field.name: fitted(value.get(field.name), field.dtype) for field in fields}
    if isinstance(data_type, pl.List):
        is_list = isinstance(value, list)
        return [fitted(element, data_type.inner) for element in value] if is_list else None
    if data_type == pl.String:
        return plain_text(value) if isinstance(value, str) else json.dumps(value)
    try:
        number = float(value) if data_type == pl.Float64 else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if data_type == pl.Float64 or -(1 << 63) <= number < 1 << 63 else None
