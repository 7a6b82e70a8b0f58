"""Reference logs: read from a file, or made from an evaluation on the cluster."""

from pathlib import Path

from cli.failures import Misused
from cli.inputs.manifests import read_map
from mlscope.client import AsyncClient
from mlscope.reproducing.logs import Altered, NotMeasured, checked, reference_log
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.reference import ReferenceLog

_TABLES = ("conditions", "latency", "throughput", "accuracy")


async def log_of(client: AsyncClient, evaluation: str) -> ReferenceLog:
    """Return an evaluation's reference log. Raises Misused, CommandRefused."""
    status = await client.status(evaluation)
    names = [name for name in _TABLES if name in status.tables]
    try:
        tables = await client.tables(evaluation, *names)
        agents = (await client.catalog("agent")).agents
        return reference_log(
            status,
            [agent.announcement for agent in agents],
            {result.name: result.rows() for result in tables.values()},
            (await client.predictions(evaluation)).predictions,
        )
    except NotMeasured as error:
        raise Misused(str(error)) from error


def read_log(path: Path) -> ReferenceLog:
    """Return the reference log in a file. Raises Misused."""
    try:
        return checked(parse(ReferenceLog, read_map(path)))
    except (MalformedMessage, Altered) as error:
        raise Misused(f"{path}: {error}") from None
