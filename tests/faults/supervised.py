"""`mlscope up` of a trial: the same supervisor, with brokers and the agent on hosts of their own.

    python -m tests.faults.supervised FOLDER HOST,HOST,…

A host is `NAMESPACE=ADDRESS`, a network namespace with its address; the first is the cluster's
own. Of two hosts, the second is the agent's, and the cluster's host has the only broker. Of four,
the other three have a broker each. Without namespaces all is on loopback.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cli.cluster.plan import ClusterPlan, Programs
from cli.cluster.ports import LOOPBACK, chosen_ports, free_port
from cli.cluster.processes import Command
from cli.cluster.servers.nats_conf import NatsLayout, Routes
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.state import folder_lock
from cli.cluster.supervised import Program
from cli.cluster.supervisor import Supervisor, Waker
from mlscope.logs import set_up_logging

BROKERS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A host: its network namespace, '' for this one, and its address."""

    namespace: str
    address: str

    def argv(self, *words: str) -> tuple[str, ...]:
        """Return the command line that runs a program on it."""
        own = ("ip", "netns", "exec", self.namespace) if self.namespace else ()
        return (*own, *words)


def places_in(text: str) -> list[Place]:
    """Return the hosts that a command line names."""
    return [Place(*host.split("=")) for host in text.split(",")]


class Broker(NatsServer):
    """A broker on a host of its own, which keeps what it has beside that of the others."""

    def __init__(
        self, folder: Path, name: str, place: Place, ports: tuple[int, int], routes: list[str]
    ) -> None:
        """Make a broker that listens on `ports`, for clients and for who asks for its health.

        `routes` are the addresses on which all brokers take routes, its own first; empty for one
        that is alone.
        """
        super().__init__(folder, port=ports[0], monitor_port=ports[1], host=place.address)
        self.name, self._place, self._routes = name, place, routes
        self._conf = folder / f"{name}.conf"
        self.all: list[Broker] = [self]

    @property
    def log(self) -> Path:
        """The file of its own log."""
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def url(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"nats://{broker.host}:{broker.port}" for broker in self.all)

    @property
    def monitor_url(self) -> str:
        """The address of its monitor, which is on its own host."""
        return super().monitor_url.replace(LOOPBACK, self.host)

    def layout(self) -> NatsLayout:
        """Return where it listens and keeps its streams, and its routes."""
        store = str((self.folder / self.name).resolve())
        layout = replace(super().layout(), store=store, monitor_host=self.host)
        if not self._routes:
            return layout
        listen, *peers = self._routes
        return replace(layout, routes=Routes(self.name, listen, tuple(peers)))

    def command(self) -> Command:
        """Return the command of the server on its host."""
        command = super().command()
        return replace(command, name=self.name, argv=self._place.argv(*command.argv))


class FaultPlan(ClusterPlan):
    """A cluster whose brokers and agent have hosts of their own."""

    def __init__(
        self,
        folder: Path,
        ports: Mapping[str, int],
        environ: Mapping[str, str],
        places: list[Place],
    ) -> None:
        """Plan the cluster of `folder` on `places`, with a port for each name in `ports`."""
        super().__init__(folder, ports, environ, Programs())
        self._agent = places[1] if len(places) == 2 else places[0]
        self.brokers = self._brokers(places[1:] if len(places) > BROKERS else places[:1])
        self.nats = self.brokers[0]

    def _brokers(self, places: list[Place]) -> list[Broker]:
        names = [f"nats-{number}" for number in range(len(places))] if places[1:] else ["nats"]
        chosen = [free_port() for _ in range(3 * len(places))]
        routes = [
            f"{place.address}:{port}" for place, port in zip(places, chosen[2::3], strict=True)
        ]
        brokers = [
            Broker(
                *(self.folder, name, place, (chosen[3 * number], chosen[3 * number + 1])),
                routes=[routes[number], *routes[:number], *routes[number + 1 :]],
            )
            for number, (name, place) in enumerate(zip(names, places, strict=True))
        ]
        if len(brokers) == 1:
            brokers[0]._routes = []
        for broker in brokers:
            broker.all = brokers
        return brokers

    def servers(self) -> list[Program]:
        """Return the brokers and PostgreSQL."""
        (_, postgres) = super().servers()
        brokers = [
            Program(broker.name, broker.command, broker.is_ready, stop_within_s=15.0)
            for broker in self.brokers
        ]
        return [*brokers, postgres]

    def _service(self, name: str, argv: tuple[str, ...], key: str = "") -> Program:
        return super()._service(name, self._agent.argv(*argv) if name == "agent" else argv, key)


def main(folder: Path, places: list[Place]) -> None:
    """Run the cluster until a signal ends it."""
    set_up_logging("supervisor")
    with (
        folder_lock(folder),
        chosen_ports(folder, os.environ, places[0].address) as ports,
        Waker() as waker,
    ):
        plan = FaultPlan(folder, ports, dict(os.environ), places)
        Supervisor(plan, waker, lambda _: None, os.getpid()).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), places_in(sys.argv[2]))
