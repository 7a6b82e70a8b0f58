"""A database on another machine is used over TLS alone, unless its URL says otherwise."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.cluster.keys.certificates import ensure_certificate
from cli.cluster.ports import free_port
from cli.cluster.servers.database_user import unprivileged_user
from mlscope.database.migrations import apply
from mlscope.errors import TlsMissing
from mlscope.settings import Settings
from tests.places import lent_folder

ELSEWHERE = "?hostaddr=127.0.0.1"
"""Where the tests' other machine really is."""
PROGRAMS = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]
"""PostgreSQL of this machine: that of the tests' package speaks no TLS."""


def conninfo_of(url: str) -> str:
    """Return how services connect to a database that seems to be on another machine."""
    url = url.replace("@127.0.0.1:", "@db.example:")
    return Settings.read({"MLSCOPE_DATABASE_URL": url}).database_conninfo()


def test_without_tls_a_database_elsewhere_is_refused(database_url: str, tmp_path: Path) -> None:
    url = database_url + ELSEWHERE
    with pytest.raises(TlsMissing, match="sslmode=disable"):
        apply(conninfo_of(url), "test", tmp_path)
    assert apply(conninfo_of(f"{url}&sslmode=disable"), "test", tmp_path) == "postgresql"


@contextmanager
def speaking_tls(folder: Path) -> Iterator[str]:
    """Run this machine's PostgreSQL with a certificate; lend its URL."""
    data, port, programs = folder / "data", free_port(), max(PROGRAMS).parent
    user = unprivileged_user()
    as_user: dict[str, Any] = (
        {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
    )
    certificate = ensure_certificate(folder / "tls", "db.example")
    if user is not None:
        os.chown(folder, *user)
    argv = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "-N"]
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, **as_user)
    for source in (certificate.certificate, certificate.key):
        own = shutil.copyfile(source, data / source.name)
        own.chmod(0o600)
        os.chown(own, data.stat().st_uid, data.stat().st_gid)
    settings = ("ssl=on", "ssl_cert_file=server.pem", f"port={port}", "fsync=off")
    options = [word for text in (*settings, "unix_socket_directories=") for word in ("-c", text)]
    ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(
        [str(programs / "postgres"), "-D", str(data), *options], **as_user
    ) as server:
        try:
            while subprocess.run(ready, check=False).returncode:
                assert server.poll() is None
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres{ELSEWHERE}"
        finally:
            server.terminate()


@pytest.mark.long
@pytest.mark.skipif(not PROGRAMS, reason="NO TLS IS TRIED: this machine has no PostgreSQL")
def test_a_database_elsewhere_is_used_over_tls() -> None:
    with lent_folder("tls") as folder, speaking_tls(folder) as url:
        with psycopg.connect(conninfo_of(url)) as session:
            assert session.pgconn.ssl_in_use
        with psycopg.connect(conninfo_of(f"{url}&sslmode=disable")) as session:
            assert not session.pgconn.ssl_in_use
