"""REST for files that a manifest names and no address has yet."""

from starlette.requests import Request
from starlette.responses import Response

from mlscope.bus.asked import not_allowed
from mlscope.client.errors import CommandRefused
from schemas.encoding.errors import MalformedMessage
from schemas.people import VERBS
from schemas.request import Evaluate, Refused
from services.gateway.errors import FileTooLarge, WrongContentType
from services.gateway.parameters.request_values import who_asks
from services.gateway.responses import as_json
from services.gateway.sent.files import SentFiles

_MEDIA_TYPE = "application/octet-stream"
_MOST_CHARACTERS = 255


async def send(request: Request) -> Response:
    """POST /api/files?name=NAME: keep the file in the body for a day; 201 with its address.

    Agents fetch it from there if a manifest names the address, which `manifests/check` writes into
    one.
    """
    sent_files, name = checked_sending(request)
    file = await sent_files.receive(name, request.stream(), who_asks(request).name)
    sha256, address = f"sha256:{file.sha256}", f"artifact://{file.name}"
    body = {"name": name, "address": address, "sha256": sha256, "size_bytes": file.size_bytes}
    return as_json(body, 201)


def checked_sending(request: Request) -> tuple[SentFiles, str]:
    """Return what receives the file in the body of a `request`, and the file's name.

    The media type is required because a form on another site's page cannot send it. Raises
    CommandRefused, MalformedMessage, WrongContentType, FileTooLarge.
    """
    sent_files: SentFiles | None = request.app.state.sent_files
    if sent_files is None:
        message = (
            "this gateway keeps no files; give files on the web, or use `mlscope run FILE.yml`"
        )
        raise CommandRefused(Refused(error="unavailable", message=message))
    asker = who_asks(request)
    if Evaluate.verb not in VERBS[asker.role]:
        message = not_allowed(asker, Evaluate.verb)
        raise CommandRefused(Refused(error="forbidden", message=message))
    name, content_type = request.query_params.get("name", ""), request.headers.get("content-type")
    if not 0 < len(name) <= _MOST_CHARACTERS:
        expected = f"the file's name, of up to {_MOST_CHARACTERS} characters"
        raise MalformedMessage(field="name", found=repr(name)[:80], expected=expected)
    if content_type != _MEDIA_TYPE:
        raise WrongContentType(content_type or "", _MEDIA_TYPE)
    declared = request.headers.get("content-length", "")
    if declared == "0":
        raise MalformedMessage(field="body", found="0 bytes", expected="the file's bytes")
    if declared.isdecimal() and int(declared) > sent_files.most_bytes:
        raise FileTooLarge(int(declared), sent_files.most_bytes)
    return sent_files, name
