"""Three nats-servers in a cluster, each with an own folder, all with the same keys."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from cli.cluster.keys.certificates import Certificate, ensure_certificate
from cli.cluster.ports import LOOPBACK, free_port
from cli.cluster.servers.nats_conf import NatsLayout, Routes
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.nats.connection import Connection
from mlscope.settings import Settings
from tests.places import lent_folder

COUNT = 3


class Broker(NatsServer):
    """One nats-server of several."""

    def __init__(
        self,
        folder: Path,
        number: int,
        route_ports: Sequence[int],
        routes_certificate: Certificate,
        certificate: Certificate | None = None,
    ) -> None:
        """Make the server `number` of those that take routes on `route_ports`.

        It shows `routes_certificate` to the others, and `certificate` to clients, if given.
        """
        super().__init__(folder, certificate=certificate)
        self.number = number
        self._route_ports = route_ports
        self._shown = routes_certificate

    def layout(self) -> NatsLayout:
        """Return the layout of a server on its own, and its routes."""
        others = [port for port in self._route_ports if port != self._route_ports[self.number]]
        routes = Routes(
            server=f"broker-{self.number}",
            listen=f"{LOOPBACK}:{self._route_ports[self.number]}",
            peers=tuple(f"{LOOPBACK}:{port}" for port in others),
            certificate_file=str(self._shown.certificate),
            key_file=str(self._shown.key),
            authority_file=str(self._shown.authority),
        )
        return replace(super().layout(), routes=routes)

    def is_healthy(self) -> bool:
        """Tell whether the server, its streams and its consumers follow the cluster."""
        try:
            with urlopen(f"{self.monitor_url}/healthz", timeout=1.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Brokers:
    """Three brokers; `with` starts and stops them."""

    def __init__(self, folder: Path, *, certificate: Certificate | None = None) -> None:
        """Make the brokers, not started, with the keys of the first.

        Clients see `certificate`, if given.
        """
        route_ports = [free_port() for _ in range(COUNT)]
        shown = ensure_certificate(folder / "routes", LOOPBACK)
        self.members = [
            Broker(folder / f"broker-{number}", number, route_ports, shown, certificate)
            for number in range(COUNT)
        ]
        self.members[0].configuration()
        for other in self.members[1:]:
            shutil.copytree(self.members[0].folder / "keys", other.folder / "keys")

    @property
    def url(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.url for broker in self.members)

    def settings(self, name: str, url: str = "") -> Settings:
        """Return the settings of a connection with the key `name`, to `url` or to all brokers."""
        return Settings(nats_url=url or self.url, nats_seed_file=self.members[0].seed_files[name])

    def await_health(self, within_s: float = 20.0) -> None:
        """Return once every broker is healthy, the leaders elected."""
        deadline = time.monotonic() + within_s
        while not all(broker.is_healthy() for broker in self.members):
            assert time.monotonic() < deadline, "the brokers are not healthy in time"
            time.sleep(0.05)

    async def described(self, stream: str) -> dict[str, Any]:
        """Return what JetStream says of a stream."""
        connection = Connection(self.settings("provisioner"), "provisioner")
        await connection.open(10.0)
        try:
            info: dict[str, Any] = await connection.call(f"$JS.API.STREAM.INFO.{stream}", {})
        finally:
            await connection.close()
        return info

    async def leader(self, stream: str) -> Broker:
        """Return the broker that leads a stream."""
        info = await self.described(stream)
        return self.members[int(info["cluster"]["leader"].removeprefix("broker-"))]

    def __enter__(self) -> "Brokers":
        """Start all, and wait until they have elected a leader."""
        self._running = ExitStack()
        for broker in self.members:
            broker.start(timeout_s=20)
            self._running.callback(broker.stop)
        self.await_health()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all."""
        self._running.close()


@contextmanager
def three_brokers() -> Iterator[Brokers]:
    """Lend three running brokers with new keys; nothing is provisioned."""
    with lent_folder("brokers") as folder, Brokers(folder) as brokers:
        yield brokers
