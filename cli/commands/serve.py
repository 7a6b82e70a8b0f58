"""`mlscope serve NAME`: runs one service."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib import import_module
from typing import cast

from cli import exits
from cli.inputs.pages import TOKEN_FILE
from mlscope.bus.bus import Bus
from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.records import ServiceInfo, StatsSource
from mlscope.bus.wrapping import WrappedBus
from mlscope.health import Announced, count_silence
from mlscope.logs import set_up_logging
from mlscope.metrics.process import process_figures
from mlscope.metrics.standing import ServiceFigures, Standing
from mlscope.settings import InvalidSetting, Settings
from mlscope.settings.reference import unknown_variables

_ANSWER_WITHIN_S = 5.0
_log = logging.getLogger(__name__)


def serve(arguments: argparse.Namespace) -> int:
    """Run a service until SIGTERM or SIGINT. Raises InvalidSetting."""
    import uvloop

    if arguments.service != "agent":
        # NumPy starts a thread a core for products of matrices; only a worker may need them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = Settings.read(os.environ)
    if arguments.service == "gateway" and settings.gateway_token_file is None:
        token_file = settings.data_folder / "keys" / TOKEN_FILE
        if not token_file.is_file():
            needed = f"a file with a token: {settings.data_folder} has none of a local cluster"
            raise InvalidSetting("MLSCOPE_GATEWAY_TOKEN_FILE", "", needed)
        settings = replace(settings, gateway_token_file=token_file)
    set_up_logging(arguments.service, settings.log_level, form=settings.log_format)
    for variable in unknown_variables(os.environ):
        _log.warning("unknown setting", extra={"variable": variable})
    if settings.ready_file is not None:
        # Both are left by an earlier start in this container.
        settings.ready_file.unlink(missing_ok=True)
        count_silence(settings.ready_file, "starting")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_stopped(arguments.service, settings))
    return exits.OK


async def serve_until_stopped(name: str, settings: Settings) -> None:
    """Run the service `name` until a signal, or until its connection ends for good.

    `settings` are its own. Raises Unreachable when the connection ended, or KeyRevoked.
    """
    from mlscope.bus.access.permissions import agent_inbox
    from mlscope.bus.nats import connect

    service = import_module(f"services.{name}.service")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    inbox = agent_inbox(settings.agent_id) if name == "agent" else ""
    async with connect(settings, name, inbox=inbox) as bus, _traced(bus, settings) as traced:
        announcing = _AnnouncingBus(traced, settings)
        closed = asyncio.create_task(bus.wait_closed())
        # A service without a connection hears nothing more: it ends, and is started again.
        closed.add_done_callback(lambda _: stop.set())
        try:
            await service.serve(cast("Bus", announcing), settings, stop)
            if closed.done() and (cause := closed.result()) is not None:
                raise cause
        finally:
            closed.cancel()
            announcing.close_port()


@asynccontextmanager
async def _traced(bus: Bus, settings: Settings) -> AsyncIterator[Bus]:
    """Lend a bus that records spans of what passes on `bus`, where the `settings` want them."""
    if not settings.telemetry_url:
        yield bus
        return
    try:
        from mlscope.telemetry.bus import TracedBus
        from mlscope.telemetry.tracer import Tracer
    except ImportError as error:
        needed = "the extra `telemetry`: pip install 'mlscope[telemetry]'"
        raise InvalidSetting("MLSCOPE_TELEMETRY_URL", settings.telemetry_url, needed) from error
    attributes = {"service.instance.id": f"{socket.gethostname()}-{os.getpid()}"}
    if bus.name == "agent":
        attributes["mlscope.agent"] = settings.agent_id
    tracer = Tracer(bus.name, settings.telemetry_url, attributes)
    try:
        yield cast("Bus", TracedBus(bus, tracer))
    finally:
        await asyncio.to_thread(tracer.close)


class _AnnouncingBus(WrappedBus):
    """A bus with each service's reports about itself: figures, ready file, port of metrics."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        super().__init__(bus)
        self._settings = settings
        self.close_port: Callable[[], None] = lambda: None

    async def announce(self, facts: ServiceInfo, stats: StatsSource) -> ServiceInstance:
        """Answer discovery requests, and say in the ready file whom a health check asks."""
        of_process = process_figures(self._settings.restarts)

        def figures() -> dict[str, object]:
            return {**stats(), "process": of_process(), "bus": asdict(self._bus.traffic)}

        instance = await self._bus.announce(facts, figures)
        if self._settings.metrics_port:
            self._open_port(instance)
        if self._settings.ready_file is not None:
            Announced(instance.instance, os.getpid()).write(self._settings.ready_file)
        # A service announces itself once it knows the catalog: 100,000 objects, which stay. To look
        # for garbage among them takes 80 ms, in which it answers nobody.
        gc.collect()
        gc.freeze()
        return instance

    def _open_port(self, instance: ServiceInstance) -> None:
        from mlscope.metrics.exposition import open_port

        loop = asyncio.get_running_loop()

        async def own() -> Standing:
            return Standing([ServiceFigures.of(instance.answer_to("$SRV.STATS"))])

        def ask() -> Standing:
            # The figures belong to the loop's thread.
            return asyncio.run_coroutine_threadsafe(own(), loop).result(_ANSWER_WITHIN_S)

        self.close_port = open_port(self._settings.metrics_host, self._settings.metrics_port, ask)
