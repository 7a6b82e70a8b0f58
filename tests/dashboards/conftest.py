"""A session of the role that only reads."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.dashboards.reading_role import as_reader, fill, migrated


@pytest.fixture
def reader(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend a session of the role of reader.sql in a database that holds three evaluations."""
    migrated(database_url)
    fill(database_url)
    with as_reader(database_url) as session:
        yield session
