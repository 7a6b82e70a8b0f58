"""mlscope's own exports of Chrome trace events, as the runs that they were. Pure.

Their arguments hold every span as it was stored.
"""

import polars as pl

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.events import Events
from mlscope.importing.recording import SPAN_SCHEMA, Recording, with_all_columns
from mlscope.importing.validation import has_missing_fields, is_attributes


def is_own(events: Events) -> bool:
    """Say whether mlscope exported them."""
    return bool(events.mlscope)


def recording_of(path: str, events: Events) -> Recording:
    """Return the run that was exported. Raises ForeignFileBroken, which names `path`."""
    arguments = pl.col("args").struct
    exported_as = {"block": "run_block"}
    columns = [
        arguments.field(exported_as.get(name, name)).alias(name)
        for name in SPAN_SCHEMA
        if name != "name"
    ]
    rows = events.frame.select("name", *columns).drop_nulls("span")
    try:
        spans = with_all_columns(rows.sort("start_ns", "span"))
    except pl.exceptions.PolarsError as error:
        raise ForeignFileBroken(path, f"is an altered export: {error}") from error
    if has_missing_fields(spans):
        raise ForeignFileBroken(path, "is an altered export: a span lacks a field")
    if not all(map(is_attributes, spans["attributes"].drop_nulls())):
        raise ForeignFileBroken(path, "is an altered export: attributes are not a JSON object")
    return Recording(
        tool="mlscope",
        spans=spans,
        framework=events.framework or "imported",
        host=events.host or "imported",
        device=events.device or "cpu",
        accelerator=events.accelerator,
        epoch_ns=events.base_ns,
        notes=("the export lacks the last spans of its run",) if events.is_cut else (),
    )
