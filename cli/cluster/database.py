"""Which database a cluster uses: its own PostgreSQL, or one that the environment names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from mlscope.settings import Settings

DATABASE_SETTINGS = ("MLSCOPE_DATABASE_URL", "MLSCOPE_DATABASE_PASSWORD_FILE")
_EXTENSION = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'"


@dataclass(frozen=True, slots=True)
class Database:
    """Where the database is, and the file with its password if it needs one."""

    url: str = field(repr=False)
    password_file: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """Return the database that the environment names: then the cluster runs none itself."""
        url, password_file = (environ.get(name, "").strip() for name in DATABASE_SETTINGS)
        return cls(url, password_file) if url else None

    def environ(self) -> dict[str, str]:
        """Return the settings of whoever uses it."""
        return dict(zip(DATABASE_SETTINGS, (self.url, self.password_file), strict=True))

    def kind(self) -> str:
        """Ask the database what it is: its name and version, or that it does not answer."""
        import psycopg  # deferred: --help must not wait for it

        try:
            conninfo = Settings.read(self.environ()).database_conninfo()
            with psycopg.connect(conninfo, connect_timeout=3) as session:
                version = session.info.server_version // 10000
                extension = session.execute(_EXTENSION).fetchone()
        except (psycopg.OperationalError, OSError):
            return "not answering"
        if extension is None:
            return f"PostgreSQL {version}, without TimescaleDB"
        return f"PostgreSQL {version} with TimescaleDB {extension[0]}"
