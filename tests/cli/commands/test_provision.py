"""`mlscope provision` with a real server, and a database of the wrong encoding or none."""

from collections.abc import Iterator

import psycopg
import pytest

from cli import exits
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import Postgres
from tests.cli.conftest import CommandLine


@pytest.fixture
def ascii_url(postgres: Postgres) -> Iterator[str]:
    with psycopg.connect(postgres.admin_url(), autocommit=True) as session:
        session.execute(
            "CREATE DATABASE bytes_only ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        )
        yield postgres.admin_url("bytes_only")
        session.execute("DROP DATABASE bytes_only WITH (FORCE)")


async def test_a_database_without_unicode_is_refused_with_the_fix(
    nats_server: NatsServer, ascii_url: str
) -> None:
    said = await refused(nats_server, ascii_url)
    assert "mlscope provision: database bytes_only has encoding SQL_ASCII" in said
    assert "CREATE DATABASE \"bytes_only_utf8\" ENCODING 'UTF8'" in said


async def test_a_database_that_is_not_there_is_named_by_its_setting(
    nats_server: NatsServer,
) -> None:
    said = await refused(nats_server, f"postgresql://me:hidden@127.0.0.1:{free_port()}/mlscope")
    assert "the database of MLSCOPE_DATABASE_URL: connection failed" in said
    assert "hidden" not in said


async def refused(server: NatsServer, database_url: str) -> str:
    """Return what `mlscope provision` prints as it fails, without a traceback."""
    provisioning = CommandLine(
        MLSCOPE_NATS_URL=server.url,
        MLSCOPE_NATS_SEED_FILE=str(server.seed_files["provisioner"]),
        MLSCOPE_DATABASE_URL=database_url,
    )
    ended = await provisioning("provision")
    assert (ended.code, "Traceback" in ended.err) == (exits.FAILED, False)
    return ended.err
