"""Bodies of requests: JSON, bounded, said to be JSON."""

from starlette.requests import Request

from schemas.codec import is_json
from schemas.errors import MalformedMessage
from services.gateway.errors import WrongContentType

MOST_BYTES = 1 << 20


async def json_body(request: Request) -> bytes:
    """Return a request's body. Raises WrongContentType, MalformedMessage when it is no JSON map.

    The type is asked for because a form on another site's page cannot send it.
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise WrongContentType(kind)
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise MalformedMessage(
                field="", found=f"over {MOST_BYTES} bytes", expected="a smaller body"
            )
    if not is_json(body):
        raise MalformedMessage(field="", found=repr(body[:40]), expected="a JSON object")
    return body
