"""`mlscope serve NAME`: runs one service."""

import argparse
import asyncio
import logging
import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from cli import exits
from mlscope.bus.bus import Bus, StatsSource
from mlscope.bus.records import ServiceInfo
from mlscope.logs import set_up_logging
from mlscope.settings import Settings
from mlscope.settings.reference import unknown_variables

_log = logging.getLogger(__name__)


def serve(arguments: argparse.Namespace) -> int:
    """Run a service until SIGTERM or SIGINT."""
    import uvloop

    settings = Settings.read(os.environ)
    set_up_logging(arguments.service, settings.log_level)
    for variable in unknown_variables(os.environ):
        _log.warning("unknown setting", extra={"variable": variable})
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)  # left by an earlier start in this container
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(arguments.service, settings))
    return exits.OK


async def _serve(name: str, settings: Settings) -> None:
    from mlscope.bus.nats import connect
    from mlscope.bus.permissions import agent_inbox

    service = import_module(f"services.{name}.service")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    inbox = agent_inbox(settings.agent_id) if name == "agent" else ""
    async with connect(settings, name, inbox=inbox) as bus:
        await service.serve(cast("Bus", _ReadyFileBus(bus, settings.ready_file)), settings, stop)


class _ReadyFileBus:
    """A bus that creates the ready file once the service has announced itself."""

    def __init__(self, bus: Bus, ready_file: Path | None) -> None:
        self._bus = bus
        self._ready_file = ready_file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def announce(self, facts: ServiceInfo, stats: StatsSource) -> None:
        """Answer discovery requests, and create the ready file for the supervisor."""
        await self._bus.announce(facts, stats)
        if self._ready_file is not None:
            self._ready_file.touch()
