"""How the cluster stands: asked of every service over the bus, for all who want to know (I/O)."""

import asyncio
import json
import logging
import time

from mlscope.bus.access.rights import read_figures
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import Backlog
from mlscope.bus.streams import DURABLES
from mlscope.metrics.declared import SERVICES
from mlscope.metrics.standing import ServiceFigures, Standing, with_unique_hosts

_ANSWER_WITHIN_S = 1.0
_FRESH_S = 1.0
_MOST_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


class ClusterStanding:
    """Asks once for all who want to know at the same time, and at most once a second."""

    def __init__(self, bus: Bus) -> None:
        """Ask over `bus`."""
        self._bus = bus
        self._turn = asyncio.Lock()
        self._asked_s = -_FRESH_S
        self._standing = Standing()

    async def current(self) -> Standing:
        """Return the figures of every instance that answers, and what durables have to do."""
        async with self._turn:
            if time.monotonic() - self._asked_s >= _FRESH_S:
                async with asyncio.TaskGroup() as group:
                    answering = [group.create_task(self._figures(name)) for name in SERVICES]
                    asking = [
                        group.create_task(self._backlog(durable.name)) for durable in DURABLES
                    ]
                figures = [figures for task in answering for figures in task.result()]
                backlogs = dict(task.result() for task in asking)
                self._standing = Standing(
                    figures,
                    {name: backlog for name, backlog in backlogs.items() if backlog is not None},
                )
                self._asked_s = time.monotonic()
        return self._standing

    async def _figures(self, service: str) -> list[ServiceFigures]:
        """Ask the instances of one service, on a subject that no other key may answer."""
        (subject,) = read_figures(service)
        try:
            texts = await self._bus.ask_all(subject, within_s=_ANSWER_WITHIN_S)
        except BusError as error:
            _log.info("no figures of %s: %s", service, error)
            return []
        answers: list[ServiceFigures] = []
        for text in texts:
            try:
                figures = ServiceFigures.of(json.loads(text if len(text) <= _MOST_BYTES else ""))
            except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
                _log.warning("%s sent an answer that cannot be read", service)
                continue
            if figures.service == service:
                answers.append(figures)
        return with_unique_hosts(answers)

    async def _backlog(self, durable: str) -> tuple[str, Backlog | None]:
        try:
            return durable, await self._bus.backlog(durable)
        except BusError as error:
            _log.info("no backlog of %s: %s", durable, error)
            return durable, None
