"""REST for trying a model: answers to a few files, without timing anything."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client import AsyncClient
from mlscope.client.errors import NotAnswering
from mlscope.feature_text import feature_lines
from schemas.encoding.codec import unpack
from schemas.encoding.errors import MalformedMessage
from services.gateway.bodies import MOST_FILES, json_body
from services.gateway.request_values import bus_of
from services.gateway.responses import as_json

_LIMIT_S = 120.0
_FIELDS = ("framework", "system", "agents", "options")


async def predict(request: Request) -> Response:
    """POST /api/predict: what a `model` answers to `files`, base64 by name; at most 8.

    `framework`, `system`, `agents` and `options` are as in `Evaluate`. A file that is no good has
    an `error`; the answers of each file are best first.
    """
    body = unpack(await json_body(request))
    for name in body:
        if name not in ("model", "files", *_FIELDS):
            allowed = f"model, files, {', '.join(_FIELDS)}"
            raise MalformedMessage(field=name[:80], found="it", expected=allowed)
    files = _files_in(body)
    fields = {name: body[name] for name in _FIELDS if body.get(name)}
    try:
        async with asyncio.timeout(_LIMIT_S), AsyncClient(bus=bus_of(request)) as client:
            predicted = await client.predict(body.get("model", ""), files, **fields)
    except TimeoutError:
        raise NotAnswering("predict", f"no answer in {_LIMIT_S:.0f} s") from None
    answers = [
        {
            "file": one.file,
            "error": one.error,
            "evaluation": one.evaluation,
            "answers": [asdict(line) for line in feature_lines(one.features)],
        }
        for one in predicted
    ]
    return as_json({"model": body.get("model"), "predictions": answers})


def _files_in(body: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a body, decoded. Raises MalformedMessage."""
    files = body.get("files")
    if not isinstance(files, dict) or not 0 < len(files) <= MOST_FILES:
        files_text = f"{len(files)} files" if isinstance(files, dict) else repr(files)[:80]
        expected = f"1 to {MOST_FILES} files, base64 by name"
        raise MalformedMessage(field="files", found=files_text, expected=expected)
    decoded = {}
    for name, text in files.items():
        try:
            decoded[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            field = f"files.{name}"[:80]
            raise MalformedMessage(field=field, found=repr(text)[:40], expected="base64") from None
    return decoded
