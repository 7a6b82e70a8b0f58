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
from mlscope.client.predicting import Upload
from mlscope.texts.features import feature_lines
from schemas.encoding.errors import MalformedMessage
from services.gateway.bodies import MOST_FILES, map_in
from services.gateway.parameters.request_values import bus_of
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.responses import as_json
from services.gateway.rest.sample_uploads import sample_upload

_LIMIT_S = 120.0
_FIELDS = ("framework", "system", "agents", "options", "visibility")


async def predict(request: Request) -> Response:
    """POST /api/predict: what a `model` answers to up to 8 `files` (base64) and `samples`.

    Both are by name. A sample has an `address`, which the agent fetches as it does a dataset's, and
    its `sha256` if that is known; or a `dataset` of the catalog and the number of a `sample`.
    `framework`, `system`, `agents`, `options` and `visibility` are as in `Evaluate`; without a
    `visibility` only who asks and owners see the files and the answers. A file that is no good has
    an `error`; the answers of each file are best first.
    """
    body = await map_in(request)
    for name in body:
        if name not in ("model", "files", "samples", *_FIELDS):
            allowed = f"model, files, samples, {', '.join(_FIELDS)}"
            raise MalformedMessage(field=name[:80], found="it", expected=allowed)
    if not body.get("model"):
        raise MalformedMessage(field="model", found="nothing", expected="a model, or its name")
    files, samples = _maps_in(body)
    uploads = _uploads_of(files)
    if samples:
        recent: RecentCatalog = request.app.state.catalog
        datasets = (await recent.get(bus_of(request))).datasets
        uploads += [sample_upload(name, fields, datasets) for name, fields in samples.items()]
    fields = {name: body[name] for name in _FIELDS if body.get(name)}
    try:
        async with asyncio.timeout(_LIMIT_S), AsyncClient(bus=bus_of(request)) as client:
            # What cannot be fetched fails its evaluation: it takes no other file with it.
            alone = [[upload] for upload in uploads if "://" in upload.address]
            together = [upload for upload in uploads if "://" not in upload.address]
            parts = await asyncio.gather(
                *(
                    client.predict(body["model"], part, **fields)
                    for part in (*alone, together)
                    if part
                )
            )
            by_name = {prediction.file: prediction for part in parts for prediction in part}
            predicted = [by_name[upload.name] for upload in uploads]
    except TimeoutError:
        raise NotAnswering("predict", f"no answer in {_LIMIT_S:.0f} s") from None
    answers = [
        {
            "file": prediction.file,
            "error": prediction.error,
            "evaluation": prediction.evaluation,
            "answers": [asdict(line) for line in feature_lines(prediction.features)],
        }
        for prediction in predicted
    ]
    return as_json({"model": body["model"], "predictions": answers})


def _maps_in(body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the files and the samples of a body, each by name. Raises MalformedMessage."""
    files, samples = body.get("files") or {}, body.get("samples") or {}
    if not isinstance(samples, dict):
        expected = "a map: samples by name, each an address or a dataset's"
        raise MalformedMessage(field="samples", found=repr(samples)[:80], expected=expected)
    count = len(files) + len(samples) if isinstance(files, dict) else 0
    if not 0 < count <= MOST_FILES:
        files_text = f"{count} files" if isinstance(files, dict) else repr(files)[:80]
        expected = f"1 to {MOST_FILES} files, base64 by name, or samples"
        raise MalformedMessage(field="files", found=files_text, expected=expected)
    if twice := files.keys() & samples.keys():
        expected = "another name than a file's"
        raise MalformedMessage(field="samples", found=min(twice)[:80], expected=expected)
    return files, samples


def _uploads_of(files: Mapping[str, Any]) -> list[Upload]:
    """Return the files of a body, decoded. Raises MalformedMessage."""
    uploads = []
    for name, text in files.items():
        try:
            uploads.append(Upload(name, base64.b64decode(text, validate=True)))
        except (binascii.Error, TypeError, ValueError):
            field = f"files.{name}"[:80]
            raise MalformedMessage(field=field, found=repr(text)[:40], expected="base64") from None
    return uploads
