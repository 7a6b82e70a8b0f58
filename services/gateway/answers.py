"""Answers of the bus as HTTP: bodies as JSON, refusals with the status that fits. Pure."""

import csv
import io
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.responses import Response

from mlscope.client.errors import ClientError, CommandRefused, Denied, NotAnswering
from schemas.analysis import Table
from schemas.errors import MalformedMessage
from schemas.request import Refused

_STATUS: Mapping[str, int] = MappingProxyType(
    {
        "malformed": 400,
        "invalid": 400,
        "unknown": 404,
        "unsatisfiable": 409,
        "conflict": 409,
        "busy": 503,
        "unavailable": 503,
    }
)


def finite(value: Any) -> Any:
    """Return a value as JSON can say it: what is not finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a body of JSON."""
    text = json.dumps(finite(value), separators=(",", ":"), ensure_ascii=False)
    return Response(text, status, headers, media_type="application/json")


FILES: Mapping[str, str] = MappingProxyType(
    {
        "csv": "text/csv",
        "parquet": "application/vnd.apache.parquet",
        "arrow": "application/vnd.apache.arrow.file",
    }
)
"""Media types of the files a table can be had as, by suffix."""


def as_file(table: Table, suffix: str) -> Response:
    """Return a table as a file to download; `suffix` is one of FILES."""
    headers = {"Content-Disposition": f'attachment; filename="{table.name}.{suffix}"'}
    return Response(_file_of(table, suffix), 200, headers, media_type=FILES[suffix])


def _file_of(table: Table, suffix: str) -> str | bytes:
    if suffix == "csv":
        return _csv_of(table)
    # Polars takes long to load, and few ask for such files.
    from mlscope.export import arrow_of, parquet_of

    return parquet_of(table) if suffix == "parquet" else arrow_of(table)


def _csv_of(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(column.name for column in table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def refusal(refused: Refused, status: int | None = None) -> Response:
    """Return a refusal; its status follows from its error unless one is given."""
    code = status or _STATUS.get(refused.error, 500)
    headers = {"Retry-After": "1"} if code == 503 else None
    return as_json(refused.model_dump(mode="json"), code, headers)


def refused_by(error: Exception) -> Refused:
    """Return why a request could not be served, in the words of the contract."""
    match error:
        case CommandRefused():
            return error.refused
        case MalformedMessage():
            return Refused(
                error="malformed",
                message=str(error),
                field=error.field,
                found=error.found,
                allowed=error.expected,
            )
        case NotAnswering() | Denied():
            return Refused(error="unavailable", message=str(error))
        case ClientError():
            return Refused(error="unknown", message=str(error))
    return Refused(error="unavailable", message="the gateway failed; its log says why")
