"""Request bodies: JSON or a form with its media type, limited in size."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from schemas.encoding.errors import MalformedMessage
from services.gateway.access.body_memory import TakeBytes
from services.gateway.errors import BodyTooLarge, WrongContentType

MOST_FILES = 8
"""Files in one request to predict."""
MOST_FORM_FIELDS = 5000
"""Fields of a form: more than the page `/new` has with a choice of thousands of agents."""


async def json_body(request: Request) -> bytes:
    """Return a request's body, of at most `app.state.most_bytes`.

    Raises WrongContentType, BodyTooLarge, TooManyBodies, and MalformedMessage when it is no JSON
    object. The media type is required because a form on another site's page cannot send it.
    """
    body = await _body(request, "application/json")
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


async def _body(request: Request, media_type: str) -> bytes:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != media_type:
        raise WrongContentType(content_type, media_type)
    most_bytes: int = request.app.state.most_bytes
    take_bytes: TakeBytes = request.state.take_body_bytes
    # A bytes object would be copied whole with each of what may be a million pieces.
    body = bytearray()
    async for chunk in request.stream():
        take_bytes(len(chunk))
        body += chunk
        if len(body) > most_bytes:
            raise BodyTooLarge(len(body), most_bytes)
    return bytes(body)
