"""Request bodies: JSON with its media type, limited in size."""

from starlette.requests import Request

from schemas.encoding.errors import MalformedMessage
from services.gateway.errors import BodyTooLarge, WrongContentType


async def json_body(request: Request) -> bytes:
    """Return a request's body, of at most `app.state.most_bytes`.

    Raises WrongContentType, BodyTooLarge, and MalformedMessage when it is no JSON object. The
    media type is required because a form on another site's page cannot send it.
    """
    media_type = request.headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise WrongContentType(media_type)
    most_bytes: int = request.app.state.most_bytes
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise BodyTooLarge(len(body), most_bytes)
    if not body.lstrip().startswith(b"{"):
        raise MalformedMessage(field="", found=repr(body[:40]), expected="a JSON object")
    return body
