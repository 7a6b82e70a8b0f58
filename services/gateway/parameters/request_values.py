"""What handlers read from a request: the gateway's bus, and what stands in the path."""

from contextlib import AbstractAsyncContextManager

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from mlscope.bus.bus import Bus
from schemas.encoding.errors import MalformedMessage
from schemas.people import THE_USER, Asker
from schemas.values.identity import Token
from services.gateway.access.personal_bus import as_asked_by
from services.gateway.access.turns import Turns

_TOKEN: TypeAdapter[str] = TypeAdapter(Token)


def bus_of(request: Request) -> Bus:
    """Return the gateway's bus, on which commands say who made the `request`."""
    bus: Bus = request.app.state.bus
    asker = who_asks(request)
    return as_asked_by(asker, bus)


def who_asks(request: Request) -> Asker:
    """Return who made a request, by the login; where nobody has to log in, the cluster's user."""
    asker: Asker = getattr(request.state, "asker", THE_USER)
    return asker


def turn_of(request: Request) -> AbstractAsyncContextManager[None]:
    """Return the turn of a large answer to a `request`, to be made within its context."""
    large_answers: Turns = request.app.state.large_answers
    return large_answers.turn(who_asks(request).name)


def decoding_turn_of(request: Request) -> AbstractAsyncContextManager[None]:
    """Return the turn of a `request` for decoding its large body."""
    large_bodies: Turns = request.app.state.large_bodies
    return large_bodies.turn(who_asks(request).name)


def checking_turn_of(request: Request) -> AbstractAsyncContextManager[None]:
    """Return the turn of a `request` for reading a manifest's text, of a megabyte and seconds."""
    manifest_checks: Turns = request.app.state.manifest_checks
    return manifest_checks.turn(who_asks(request).name)


def evaluation_of(request: Request) -> str:
    """Return the evaluation in the path. Raises MalformedMessage."""
    return _token_of(request, "evaluation")


def run_of(request: Request) -> str:
    """Return the run in the path, '' where it has none. Raises MalformedMessage."""
    return _token_of(request, "run") if "run" in request.path_params else ""


def integer_of(request: Request, name: str) -> int:
    """Return the part `name` of the path of a `request` as an integer. Raises MalformedMessage."""
    text = str(request.path_params[name])
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise MalformedMessage(field=name, found=text[:80], expected="an integer")
    return int(text)


def checked_evaluation(text: str) -> str:
    """Return an evaluation's id. Raises MalformedMessage for a text that is none."""
    return _token(text, "evaluation")


def _token_of(request: Request, name: str) -> str:
    return _token(str(request.path_params[name]), name)


def _token(text: str, name: str) -> str:
    try:
        return _TOKEN.validate_python(text)
    except ValidationError as error:
        raise MalformedMessage(
            field=name, found=text[:80], expected="1 to 64 of A-Z a-z 0-9 _ -"
        ) from error
