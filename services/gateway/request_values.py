"""What handlers read from a request: the gateway's bus, and the evaluation in the path."""

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from mlscope.bus.bus import Bus
from schemas.encoding.errors import MalformedMessage
from schemas.identity import Token

_TOKEN: TypeAdapter[str] = TypeAdapter(Token)


def bus_of(request: Request) -> Bus:
    """Return the gateway's bus."""
    bus: Bus = request.app.state.bus
    return bus


def evaluation_of(request: Request) -> str:
    """Return the evaluation in the path. Raises MalformedMessage."""
    text = str(request.path_params["evaluation"])
    try:
        return _TOKEN.validate_python(text)
    except ValidationError as error:
        raise MalformedMessage(
            field="evaluation", found=text[:80], expected="1 to 64 of A-Z a-z 0-9 _ -"
        ) from error
