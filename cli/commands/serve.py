"""`mlscope serve NAME`: runs one service."""

import argparse
import asyncio
import logging
import os
import signal
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from cli import exits
from cli.inputs.pages import TOKEN_FILE
from mlscope.bus.bus import Bus, StatsSource
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import ServiceInfo
from mlscope.health import Announced
from mlscope.logs import set_up_logging
from mlscope.settings import InvalidSetting, Settings
from mlscope.settings.reference import unknown_variables

_log = logging.getLogger(__name__)


def serve(arguments: argparse.Namespace) -> int:
    """Run a service until SIGTERM or SIGINT."""
    import uvloop

    settings = Settings.read(os.environ)
    if arguments.service == "gateway" and settings.gateway_token_file is None:
        settings = replace(settings, gateway_token_file=_token_file(settings.data_folder))
    set_up_logging(arguments.service, settings.log_level)
    for variable in unknown_variables(os.environ):
        _log.warning("unknown setting", extra={"variable": variable})
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)  # left by an earlier start in this container
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_stopped(arguments.service, settings))
    return exits.OK


def _token_file(data_folder: Path) -> Path:
    """Return the file with the token of a local cluster's gateway. Raises InvalidSetting."""
    path = data_folder / "keys" / TOKEN_FILE
    if not path.is_file():
        needed = f"a file with a secret text: there is no cluster's in {data_folder}"
        raise InvalidSetting("MLSCOPE_GATEWAY_TOKEN_FILE", "", needed)
    return path


async def serve_until_stopped(name: str, settings: Settings) -> None:
    """Run the service `name` until a signal, or until its connection ends for good.

    `settings` are its own. Raises Unreachable when the connection ended.
    """
    from mlscope.bus.nats import connect
    from mlscope.bus.permissions import agent_inbox

    service = import_module(f"services.{name}.service")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    inbox = agent_inbox(settings.agent_id) if name == "agent" else ""
    async with connect(settings, name, inbox=inbox) as bus:
        ready_bus = cast("Bus", _ReadyFileBus(bus, settings.ready_file))
        closed = asyncio.create_task(bus.wait_closed())
        # A service without a connection hears nothing more: it ends, and is started again.
        closed.add_done_callback(lambda _: stop.set())
        try:
            await service.serve(ready_bus, settings, stop)
            if closed.done():
                raise Unreachable("the server ended the connection for good")
        finally:
            closed.cancel()


class _ReadyFileBus:
    """A bus that writes the ready file once the service has announced itself."""

    def __init__(self, bus: Bus, ready_file: Path | None) -> None:
        self._bus = bus
        self._ready_file = ready_file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def announce(self, facts: ServiceInfo, stats: StatsSource) -> str:
        """Answer discovery requests, and say in the ready file whom a health check asks."""
        instance = await self._bus.announce(facts, stats)
        if self._ready_file is not None:
            Announced(instance, os.getpid()).write(self._ready_file)
        return instance
