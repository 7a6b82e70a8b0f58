"""Reference logs: read from a file, or made from an evaluation on the cluster."""

from pathlib import Path

from cli.failures import Misused
from cli.inputs.manifests import read_map
from mlscope.client import AsyncClient
from mlscope.client.reference import reference_log_of
from mlscope.reproducing.logs import Altered, NotMeasured, checked
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.reference import ReferenceLog


async def log_of(client: AsyncClient, evaluation: str) -> ReferenceLog:
    """Return an evaluation's reference log. Raises Misused, CommandRefused."""
    try:
        return await reference_log_of(client, evaluation)
    except NotMeasured as error:
        raise Misused(str(error)) from error


def read_log(path: Path) -> ReferenceLog:
    """Return the reference log in a file. Raises Misused."""
    try:
        return checked(parse(ReferenceLog, read_map(path)))
    except (MalformedMessage, Altered) as error:
        raise Misused(f"{path}: {error}") from None
