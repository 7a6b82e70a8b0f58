"""Request bodies: JSON or a form with its media type, limited in size."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request

from schemas.encoding.codec import decode_body, unpack
from schemas.encoding.errors import MalformedMessage
from schemas.message import Command
from services.gateway.access.body_memory import TakeBytes
from services.gateway.errors import BodyTooLarge, WrongContentType
from services.gateway.parameters.request_values import decoding_turn_of

MOST_FILES = 8
"""Files in one request to predict."""
MOST_FORM_FIELDS = 5000
"""Fields of a form: more than the page `/new` has with a choice of thousands of agents."""

MOST_TYPED_BYTES = 256 << 10
"""A request that somebody types, for which programs are written."""
LARGE_BYTES = 64 << 10
"""A longer body takes tens of milliseconds to decode: others are served meanwhile."""

C = TypeVar("C", bound=Command)
T = TypeVar("T")


async def command_in(request: Request, kind: type[C], most_bytes: int | None = None) -> C:
    """Return the command of a `kind` in the body of a `request`, of at most `most_bytes`.

    It is read as `json_body` does. Large ones are decoded one after the other. Raises as that does,
    and TooManyWaiting.
    """
    return await _read(request, partial(decode_body, kind), await json_body(request, most_bytes))


async def map_in(request: Request) -> dict[str, Any]:
    """Return the JSON object in a body, as `command_in` reads one. Raises as that does."""
    return await _read(request, unpack, await json_body(request))


async def _read(request: Request, read: Callable[[bytes], T], body: bytes) -> T:
    if len(body) <= LARGE_BYTES:
        return read(body)
    async with decoding_turn_of(request):
        return await asyncio.to_thread(read, body)


async def json_body(request: Request, most_bytes: int | None = None) -> bytes:
    """Return a request's body, of at most `most_bytes`; None: of `app.state.most_bytes`.

    Raises WrongContentType, BodyTooLarge, TooManyBodies, and MalformedMessage when it is no JSON
    object. The media type is required because a form on another site's page cannot send it.
    """
    body = await _body(request, "application/json", most_bytes)
    if not body.lstrip().startswith(b"{"):
        raise MalformedMessage(field="", found=repr(body[:40]), expected="a JSON object")
    return body


async def form_fields(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form that a page sent, empty ones too, in their order.

    Raises WrongContentType, BodyTooLarge, TooManyBodies, MalformedMessage. Forms of other sites'
    pages do not get here: the guard refuses them by their origin.
    """
    body = await _body(request, "application/x-www-form-urlencoded")
    # Reading a million empty fields would keep the gateway from others for seconds.
    if (count := 1 + body.count(b"&")) > MOST_FORM_FIELDS:
        expected = f"a form of at most {MOST_FORM_FIELDS} fields"
        raise MalformedMessage(field="", found=f"{count} fields", expected=expected)
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


async def _body(request: Request, media_type: str, most_bytes: int | None = None) -> bytes:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != media_type:
        raise WrongContentType(content_type, media_type)
    if most_bytes is None:
        most_bytes = int(request.app.state.most_bytes)
    take_bytes: TakeBytes = request.state.take_body_bytes
    # A bytes object would be copied whole with each of what may be a million pieces.
    body = bytearray()
    async for chunk in request.stream():
        take_bytes(len(chunk))
        body += chunk
        if len(body) > most_bytes:
            raise BodyTooLarge(len(body), most_bytes)
    return bytes(body)
