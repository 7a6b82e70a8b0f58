"""Bodies: read piece by piece up to a bound, and only when they are said to be JSON."""

import time
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message

from schemas.encoding.errors import MalformedMessage
from services.gateway.bodies import json_body
from services.gateway.errors import BodyTooLarge, WrongContentType

MOST_BYTES = 3000


def _request(
    *pieces: bytes, kind: str = "application/json", most_bytes: int = MOST_BYTES
) -> Request:
    async def sent() -> AsyncIterator[Message]:
        for number, piece in enumerate(pieces, start=1):
            more = number < len(pieces)
            yield {"type": "http.request", "body": piece, "more_body": more}

    app = Starlette()
    app.state.most_bytes = most_bytes
    scope = {"type": "http", "app": app, "headers": [(b"content-type", kind.encode())]}
    request = Request(scope, sent().__anext__)
    request.state.take_body_bytes = lambda _: None
    return request


async def test_pieces_are_put_together() -> None:
    assert await json_body(_request(b'{"a"', b": 1}")) == b'{"a": 1}'


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_may_be_said_in_several_ways(kind: str) -> None:
    assert await json_body(_request(b"{}", kind=kind)) == b"{}"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonp", "multipart/form-data"])
async def test_another_type_is_not_even_read(kind: str) -> None:
    with pytest.raises(WrongContentType) as refused:
        await json_body(_request(kind=kind))
    assert refused.value.media_type == kind


async def test_reading_ends_at_the_bound() -> None:
    half = b"{" + b" " * (MOST_BYTES // 2)
    assert len(await json_body(_request(half, b" " * (MOST_BYTES - len(half))))) == MOST_BYTES
    endless = _request(half, half, b"never read")
    with pytest.raises(BodyTooLarge) as refused:
        await json_body(endless)
    assert (refused.value.found_bytes, refused.value.most_bytes) == (2 * len(half), MOST_BYTES)


async def test_a_body_in_many_pieces_is_not_copied_with_each() -> None:
    pieces = [b"{" + b" " * 1023, *[b" " * 1024] * 4095]
    request = _request(*pieces, most_bytes=4 << 20)
    began_s = time.process_time()
    assert len(await json_body(request)) == 4 << 20
    assert time.process_time() - began_s < 0.4, "copying takes seconds"


@pytest.mark.parametrize("body", [b"", b"[1]", b"\x81\xa1a\x01", b"text"])
async def test_what_is_no_map_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedMessage, match="a JSON object"):
        await json_body(_request(body))
