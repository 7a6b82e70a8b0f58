"""An evaluation's reference log, made from what a client reads."""

from mlscope.client.asynchronous import AsyncClient
from mlscope.reproducing.logs import reference_log
from schemas.reference import ReferenceLog

_TABLES = ("conditions", "latency", "throughput", "accuracy")


async def reference_log_of(client: AsyncClient, evaluation: str) -> ReferenceLog:
    """Return the reference log of an `evaluation`. Raises NotMeasured, CommandRefused."""
    status = await client.status(evaluation)
    names = [name for name in _TABLES if name in status.tables]
    tables = await client.tables(evaluation, *names)
    agents = (await client.catalog("agent")).agents
    return reference_log(
        status,
        [agent.announcement for agent in agents],
        {result.name: result.rows() for result in tables.values()},
        (await client.predictions(evaluation)).predictions,
    )
