"""What a local cluster is made of: two servers, one provisioning, six services."""

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cli.cluster import ports
from cli.cluster.child import Command
from cli.cluster.database import DATABASE_SETTINGS, Database
from cli.cluster.nats_server import NatsServer
from cli.cluster.postgres import Postgres
from cli.cluster.state import kept_ports
from cli.cluster.supervised import Program

SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway", "agent")
PROVISIONER = "provisioner"
_NEED_DATABASE = frozenset({"collector", "analyzer", "gateway", PROVISIONER})
_USUAL_PORTS = {"gateway": 8080, "nats": 4222}
_PORT_NAMES = ("nats", "monitor", "postgres", "gateway")


def _mlscope(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "cli.main", *arguments)


@dataclass(frozen=True, slots=True)
class Programs:
    """The commands a cluster runs beside its servers; tests put others here."""

    provision: tuple[str, ...] = field(default_factory=lambda: _mlscope("provision"))
    services: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {name: _mlscope("serve", name) for name in SERVICES}
    )


@contextmanager
def chosen_ports(folder: Path, environ: Mapping[str, str]) -> Iterator[Mapping[str, int]]:
    """Choose the cluster's ports: asked for, else kept from last time, else usual, else any free.

    `MLSCOPE_GATEWAY_PORT` asks; 0 means any but the usual one. A usual port is held against
    clusters that start now.
    """
    asked = environ.get("MLSCOPE_GATEWAY_PORT", "").strip()
    wanted = dict(kept_ports(folder))
    if asked.isdigit() and int(asked):
        wanted["gateway"] = int(asked)
    with ExitStack() as held:
        for name, port in _USUAL_PORTS.items():
            any_will_do = name == "gateway" and asked == "0"
            if name not in wanted and not any_will_do and held.enter_context(_held_port(port)):
                wanted[name] = port
        yield ports.choose(_PORT_NAMES, wanted)


@contextmanager
def _held_port(port: int) -> Iterator[bool]:
    """Tell whether no other cluster of this machine holds `port`, and hold it meanwhile.

    Between choosing a port and a service listening on it seconds pass; an abstract unix socket
    is exclusive, leaves no file and is let go when its holder dies.
    """
    if not sys.platform.startswith("linux"):
        yield True
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        try:
            holder.bind(f"\0mlscope-port-{port}")
        except OSError:
            yield False
            return
        yield True


class ClusterPlan:
    """How every process of the cluster in `folder` is started."""

    def __init__(
        self,
        folder: Path,
        chosen: Mapping[str, int],
        environ: Mapping[str, str],
        programs: Programs,
    ) -> None:
        """Take the folder, the ports chosen and the programs' paths."""
        self.folder = folder.resolve()
        self.ports = chosen
        self.programs = programs
        self._environ = environ
        self.nats = NatsServer(self.folder, port=chosen["nats"], monitor_port=chosen["monitor"])
        named = Database.of(environ)
        own = Postgres(self.folder, port=chosen["postgres"])
        self._postgres = own if named is None else None
        self.database = named or Database(own.url, str(own.password_file))

    @property
    def gateway_url(self) -> str:
        """Where people and requests reach the gateway."""
        listening = f"http://{ports.LOOPBACK}:{self.ports['gateway']}"
        return self._environ.get("MLSCOPE_GATEWAY_URL", "").strip() or listening

    def servers(self) -> list[Program]:
        """Return NATS and our own PostgreSQL, if any; NATS first, it boots while initdb runs."""
        nats, postgres = self.nats, self._postgres
        servers = [Program("nats", nats.command, nats.is_ready, stop_within_s=15.0)]
        if postgres is not None:
            servers.append(
                Program("postgres", postgres.command, postgres.is_ready, stop_within_s=30.0)
            )
        return servers

    def services(self) -> list[Program]:
        """Return the services; one is ready once it has made its ready file."""
        return [self._service(name) for name in self.programs.services]

    def _service(self, name: str) -> Program:
        ready_file = self.folder / "run" / f"{name}.ready"

        def command() -> Command:
            ready_file.parent.mkdir(parents=True, exist_ok=True)
            ready_file.unlink(missing_ok=True)
            return Command(
                name=name,
                argv=self.programs.services[name],
                log=self.log(name),
                environ=self.environ(name) | {"MLSCOPE_READY_FILE": str(ready_file)},
            )

        return Program(name, command, ready_file.exists)

    def provision(self) -> Command:
        """Return the command that makes streams, durables, buckets and the database schema."""
        return Command(
            name="provision",
            argv=self.programs.provision,
            log=self.log("provision"),
            environ=self.environ(PROVISIONER),
        )

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.folder / "logs" / f"{name}.log"

    def environ(self, name: str) -> dict[str, str]:
        """Return the environment of a connection called `name`: ours, and its own secrets only."""
        own = {
            "MLSCOPE_DATA": str(self.folder),
            "MLSCOPE_NATS_URL": self.nats.url,
            "MLSCOPE_NATS_SEED_FILE": str(self.nats.seed_files[name]),
            "MLSCOPE_GATEWAY_PORT": str(self.ports["gateway"]),
            "MLSCOPE_GATEWAY_URL": self.gateway_url,
            "PYTHONUNBUFFERED": "1",
        }
        if name in _NEED_DATABASE:
            own |= self.database.environ()
        given = {key: text for key, text in self._environ.items() if key not in DATABASE_SETTINGS}
        return {**given, **own}
