"""Bodies of requests: JSON, bounded, said to be JSON."""

from starlette.requests import Request

from schemas.errors import MalformedMessage
from services.gateway.errors import BodyTooLarge, WrongContentType


async def json_body(request: Request) -> bytes:
    """Return a request's body, of at most the bytes that the app was built for.

    Raises WrongContentType, BodyTooLarge, and MalformedMessage when it is no JSON map.
    The type is asked for because a form on another site's page cannot send it.
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise WrongContentType(kind)
    most_bytes: int = request.app.state.most_bytes
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise BodyTooLarge(len(body), most_bytes)
    if not body.lstrip().startswith(b"{"):
        raise MalformedMessage(field="", found=repr(body[:40]), expected="a JSON object")
    return body
