"""The programs of a local cluster: two servers, one provisioning command, six services."""

import itertools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.cluster import ports
from cli.cluster.health import ASK_EVERY_S, HealthWatch
from cli.cluster.keys.secret_files import ensure_password
from cli.cluster.processes import Command
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import DATABASE_SETTINGS, Database, Postgres
from cli.cluster.supervised import Program
from mlscope.bus.access.permissions import OPERATOR
from mlscope.health import ANSWER_WITHIN_S, hear
from mlscope.settings import Settings

if TYPE_CHECKING:
    from cli.cluster.keys.certificates import Certificate

SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway", "agent")
PROVISIONER = "provisioner"
_DATABASE_USERS = frozenset({"collector", "analyzer", PROVISIONER})


def _mlscope(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "cli.main", *arguments)


@dataclass(frozen=True, slots=True)
class Programs:
    """The commands that a cluster runs besides its servers; tests replace them."""

    provision: tuple[str, ...] = field(default_factory=lambda: _mlscope("provision"))
    services: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {name: _mlscope("serve", name) for name in SERVICES}
    )


@dataclass(frozen=True, slots=True)
class Listening:
    """Where other machines reach a cluster, and the certificate that it shows them."""

    address: str
    certificate: "Certificate"


class ClusterPlan:
    """The command and environment of every process of the cluster in `folder`."""

    def __init__(
        self,
        folder: Path,
        chosen: Mapping[str, int],
        environ: Mapping[str, str],
        programs: Programs,
        listening: Listening | None = None,
        pages_fd: int | None = None,
    ) -> None:
        """Plan a cluster.

        `chosen`: a port for each of `ports.NAMES`; `environ`: our own environment variables;
        `programs`: the commands to run besides the servers; `listening`: where other machines
        reach it, if they do; `pages_fd`: the descriptor of the socket that listens for the gateway.
        """
        self.folder = folder.resolve()
        self.ports = chosen
        self.programs = programs
        self._environ = environ
        self.listening = listening
        self._pages_fd = pages_fd
        self.nats = NatsServer(
            self.folder,
            port=chosen["nats"],
            monitor_port=chosen["monitor"],
            host=listening.address if listening else ports.LOOPBACK,
            certificate=listening.certificate if listening else None,
        )
        external = Database.of(environ)
        own = Postgres(self.folder, port=chosen["postgres"])
        self._postgres = own if external is None else None
        self.database = external or Database(own.url, str(own.password_file))

    @property
    def gateway_url(self) -> str:
        """The address of the gateway for people and clients."""
        place = f"{self.nats.host}:{self.ports['gateway']}"
        listening = f"{'https' if self.listening else 'http'}://{place}"
        return self._environ.get("MLSCOPE_GATEWAY_URL", "").strip() or listening

    @property
    def gateway_token_file(self) -> Path:
        """The file with the gateway's token, which `up` makes if the user names none."""
        named = self._environ.get("MLSCOPE_GATEWAY_TOKEN_FILE", "").strip()
        if named:
            return Path(named).expanduser()
        return ensure_password(self.folder / "keys" / "gateway.token").path

    def servers(self) -> list[Program]:
        """Return NATS and our own PostgreSQL, if any; NATS comes first: it boots during initdb."""
        nats, postgres = self.nats, self._postgres
        servers = [Program("nats", nats.command, nats.is_ready, stop_within_s=15.0)]
        if postgres is not None:
            servers.append(
                Program("postgres", postgres.command, postgres.is_ready, stop_within_s=30.0)
            )
        return servers

    def services(self) -> list[Program]:
        """Return the services; each is ready while it answers over the bus.

        One that other machines reach has `admission` as well, which admits them.
        """
        services = [self._service(name, argv) for name, argv in self.programs.services.items()]
        if self.listening:
            admission = (sys.executable, "-P", "-m", "cli.cluster.keys.admission")
            services.append(self._service("admission", admission, OPERATOR))
        return services

    def _service(self, name: str, argv: tuple[str, ...], key: str = "") -> Program:
        """Return one service, which removes an old ready file before it starts."""
        key = key or name
        ready_file = self.folder / "run" / f"{name}.ready"
        restarts = itertools.count()
        pages_fd = self._pages_fd if name == "gateway" else None

        def command() -> Command:
            ready_file.parent.mkdir(parents=True, exist_ok=True)
            ready_file.unlink(missing_ok=True)
            return Command(
                name=name,
                argv=argv,
                log=self.log(name),
                environ=self.environ(key)
                | {"MLSCOPE_READY_FILE": str(ready_file), "MLSCOPE_RESTARTS": f"{next(restarts)}"},
                descriptors=() if pages_fd is None else (pages_fd,),
            )

        settings = Settings.read(self.environ(key) | {"MLSCOPE_READY_FILE": str(ready_file)})
        # Who gives a service less time than one question has asks shorter questions more often.
        wait_s = settings.health_wait_s
        ask = partial(hear, settings, key, within_s=min(ANSWER_WITHIN_S, wait_s))
        watch = HealthWatch(ask, wait_s, min(ASK_EVERY_S, wait_s))
        return Program(name, command, lambda: watch.health == "ready", watch=watch)

    def provision(self) -> Command:
        """Return the command that creates streams, durables, buckets and the database schema."""
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
        """Return the environment of the process `name`: ours, with no secrets but its own."""
        own = {
            "MLSCOPE_DATA": str(self.folder),
            "MLSCOPE_NATS_URL": self.nats.url,
            "MLSCOPE_BROKER_UID": str(os.getuid()),
            "MLSCOPE_NATS_SEED_FILE": str(self.nats.seed_files[name]),
            "MLSCOPE_GATEWAY_PORT": str(self.ports["gateway"]),
            "MLSCOPE_GATEWAY_URL": self.gateway_url,
            "PYTHONUNBUFFERED": "1",
        }
        if name == "gateway":
            own["MLSCOPE_GATEWAY_TOKEN_FILE"] = str(self.gateway_token_file)
        if name == "gateway" and self._pages_fd is not None:
            own["MLSCOPE_GATEWAY_FD"] = str(self._pages_fd)
        if name in _DATABASE_USERS:
            own |= self.database.environ()
        if self.listening:
            own |= self.listening.certificate.environ()
        if self.listening and name == "gateway":
            own |= self.listening.certificate.server_environ()
            own["MLSCOPE_GATEWAY_HOST"] = self.listening.address
        inherited = {
            key: text for key, text in self._environ.items() if key not in DATABASE_SETTINGS
        }
        return {**inherited, **own}
