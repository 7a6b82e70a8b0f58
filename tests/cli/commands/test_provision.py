"""`mlscope provision` against a real server and a real database of the wrong encoding."""

from collections.abc import Iterator

import psycopg
import pytest

from cli import exits
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
    provisioning = CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["provisioner"]),
        MLSCOPE_DATABASE_URL=ascii_url,
    )
    ended = await provisioning("provision")
    assert ended.code == exits.FAILED
    assert "mlscope provision: database bytes_only has encoding SQL_ASCII" in ended.err
    assert "CREATE DATABASE \"bytes_only_utf8\" ENCODING 'UTF8'" in ended.err
    assert "Traceback" not in ended.err
