"""The gateway's process: an HTTP server on the bus that stops within a time limit."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from urllib.parse import urlsplit

import uvicorn

from mlscope.assets.uploads import connect_uploads
from mlscope.bus.asked import answer_all
from mlscope.bus.bus import Bus
from mlscope.bus.records import ServiceInfo
from mlscope.listening import BACKLOG, adopt, listen
from mlscope.people import People, people_folder
from mlscope.serving import run_until_stopped
from mlscope.settings import Settings
from schemas.trace import Watch
from services.gateway.access import connections
from services.gateway.access.handshakes import Handshakes
from services.gateway.live.feeds import Feeds
from services.gateway.live.watches import Watches
from services.gateway.routes import build_app
from services.gateway.sample_pictures import SamplePictures
from services.gateway.sent.files import SentFiles

_log = logging.getLogger(__name__)
_STOP_WITHIN_S = 3


async def serve(
    bus: Bus, settings: Settings, stop: asyncio.Event, sent_files: SentFiles | None = None
) -> None:
    """Serve HTTP as the `settings` say, with data from `bus`, until `stop` is set.

    `sent_files` keeps files for requests; by default in the object store for uploads. Raises
    OSError when the port is in use, and InvalidSetting where the socket that a supervisor hands on
    is none that listens.
    """
    connections.raise_file_limit()
    feeds = Feeds(bus, limit=settings.max_live_clients)
    watches = Watches(bus, feeds)
    token = settings.gateway_token()
    if token is None:
        _log.warning("no token: every user of this machine can use the gateway")
    own_hosts = (settings.gateway_host, urlsplit(settings.gateway_url).hostname)
    app = build_app(
        bus,
        feeds,
        most_bytes=settings.max_request_bytes,
        token=token,
        own_hosts=frozenset(name for name in own_hosts if name),
        people=People(people_folder(settings.data_folder)),
    )
    app.state.sample_pictures = SamplePictures(settings.manifests_folder)
    connect = partial(connect_uploads, settings, "gateway", timeout_s=10.0)
    app.state.sent_files = sent_files or SentFiles(connect, settings.max_upload_bytes)
    server = _Server(
        uvicorn.Config(
            app,
            http=connections.BoundedProtocol,
            lifespan="off",
            # The gateway has none: no library that happens to be here is to read requests.
            ws="none",
            log_config=None,
            access_log=False,
            # Any user of this machine may write them, and then be another address at each guess.
            proxy_headers=False,
            server_header=False,
            ssl_certfile=settings.tls_certificate_file,
            ssl_keyfile=settings.tls_key_file,
            timeout_graceful_shutdown=_STOP_WITHIN_S,
        )
    )
    with _listener(settings) as listener:
        facts = ServiceInfo("gateway", version("mlscope"), "pages, REST and live events", {})
        await answer_all(bus, Watch, watches.answer, queue="gateway")
        announced = await bus.announce(facts, lambda: {"viewers": feeds.viewers})
        app.state.readiness.instance = announced.instance
        _log.info("listening", extra={"address": settings.gateway_address})
        await run_until_stopped(stop, server.serve_gently(listener), before_cancel=feeds.close)
        await watches.close()
        await app.state.pictures.close()


def _listener(settings: Settings) -> socket.socket:
    if settings.gateway_fd is not None:
        return adopt(settings.gateway_fd)
    return listen(settings.gateway_host, settings.gateway_port)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with bounds for the handshakes of TLS.

    The caller of `serve` handles signals.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        """Prepare a server as `config` says."""
        super().__init__(config)
        self._secured: list[Handshakes] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on `sockets`; uvicorn itself bounds no handshakes, and leaves each a minute."""
        await super().startup([])

        crowd = connections.Crowd()

        def protocol() -> connections.BoundedProtocol:
            return connections.BoundedProtocol(
                self.config, self.server_state, self.lifespan.state, crowd
            )

        loop, context = asyncio.get_running_loop(), self.config.ssl
        for listener in sockets or ():
            if context is not None:
                self._secured.append(Handshakes(listener, context, protocol))
            else:
                self.servers.append(
                    await loop.create_server(protocol, sock=listener, backlog=BACKLOG)
                )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the `sockets`, end handshakes, and let open requests finish."""
        for each in self._secured:
            await each.close()
        await super().shutdown(sockets)

    async def serve_gently(self, listener: socket.socket) -> None:
        """Serve until it is cancelled; open requests then have `timeout_graceful_shutdown`."""
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self.should_exit = True
            await serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handler."""
        yield
