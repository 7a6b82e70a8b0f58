"""Answers of the bus as HTTP responses: JSON, files, and refusals with their status code."""

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.responses import Response

from mlscope.bus.errors import BusError, Unreachable
from mlscope.client.errors import ClientError, CommandRefused, Denied, NoBroker, NotAnswering
from schemas.analysis import Table
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused
from services.gateway.table_files import FILES, file_content

_STATUS_CODES: Mapping[str, int] = MappingProxyType(
    {
        "malformed": 400,
        "invalid": 400,
        "forbidden": 403,
        "unknown": 404,
        "unsatisfiable": 409,
        "conflict": 409,
        "exhausted": 429,
        "busy": 503,
        "unavailable": 503,
    }
)


def finite(value: Any) -> Any:
    """Return a value for JSON, with null for numbers that JSON lacks (NaN, infinity)."""
    # Whether something is a Mapping comes last: to ask takes longer than all else.
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [finite(element) for element in value]
    if isinstance(value, Mapping):
        return {str(key): finite(element) for key, element in value.items()}
    return value


def json_text(value: Any) -> str:
    """Return a `value` as JSON, with null for numbers that JSON lacks (NaN, infinity)."""
    return json.dumps(finite(value), separators=(",", ":"), ensure_ascii=False)


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a `value` as a JSON response; `status` is its code, `headers` are further headers."""
    return Response(json_text(value), status, headers, media_type="application/json")


def as_file(table: Table, suffix: str) -> Response:
    """Return a table as a file to download; `suffix` is one of FILES."""
    headers = {"Content-Disposition": f'attachment; filename="{table.name}.{suffix}"'}
    return Response(file_content(table, suffix), 200, headers, media_type=FILES[suffix])


def status_code_of(refused: Refused) -> int:
    """Return the code of the HTTP response that says this."""
    return _STATUS_CODES.get(refused.error, 500)


def refusal(refused: Refused, status: int | None = None) -> Response:
    """Return a refusal; the status code follows from its error unless `status` is given."""
    code = status or status_code_of(refused)
    headers = {"Retry-After": "1"} if code == 503 else None
    return as_json(refused.model_dump(mode="json"), code, headers)


def refused_by(error: Exception) -> Refused:
    """Return why a request could not be served, as a refusal of the contract."""
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
        case Unreachable():
            return Refused(error="unavailable", message=str(NoBroker("read", str(error))))
        case BusError():
            return Refused(error="unavailable", message=str(error))
        case ClientError():
            return Refused(error="unknown", message=str(error))
    return Refused(error="unavailable", message="the gateway failed; see its log")
