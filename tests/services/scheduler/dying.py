"""A scheduler's process that dies, as no exception tells, when it advances one evaluation.

python -m tests.services.scheduler.dying URL EVALUATION
"""

import asyncio
import os
import sys

from mlscope.bus import nats
from mlscope.settings import Settings
from services.scheduler import service
from services.scheduler.service import Scheduler
from tests.contracts.worlds import OpenSettings

STATUS = 86


async def serve(url: str, deadly: str) -> None:
    """Run the scheduler over the server at `url`; the evaluation `deadly` ends the process."""
    advance = Scheduler.advance

    async def advance_or_die(scheduler: Scheduler, evaluation: str) -> None:
        if evaluation == deadly:
            os._exit(STATUS)
        await advance(scheduler, evaluation)

    Scheduler.advance = advance_or_die  # type: ignore[method-assign,assignment]
    async with nats.connect(OpenSettings(url), "scheduler") as bus:
        await service.serve(bus, Settings(nats_url=url), asyncio.Event())


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
