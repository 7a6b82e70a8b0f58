"""Real servers for tests: one nats-server and one PostgreSQL a session, a fresh database a test.

Their packages are imported by who asks for one: a GPU's machine (tests/gpu) has none of them.
"""

import gc
import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.ordering import begins_late
from tests.places import lent_folder

# Every load is one block, unless the request says otherwise: tests measure no speed.
os.environ["MLSCOPE_DEFAULT_BUDGET_S"] = "0"
# pydantic looks for plugins of its own in every installed package, in every process that starts.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
# NumPy starts a thread a core for products of matrices, in every process: half of its import.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# No test asks a server outside this machine.
os.environ["MLSCOPE_HUB_URL"] = "off"
# As in workers: else ONNX Runtime starts threads of its own, and sends events to Microsoft.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from cli.cluster.servers.nats_server import NatsServer
    from cli.cluster.servers.postgres import Postgres

# A slow machine is no failure: no test of this suite judges time. The desk explores; CI judges a
# change by the same examples every time.
hypothesis.settings.register_profile(
    "mlscope",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("mlscope")
hypothesis.settings.register_profile("brief", max_examples=20)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let whoever runs the tests ask for pictures of pages."""
    text = "take pictures of pages into this folder"
    parser.addoption("--photographs", metavar="FOLDER", default="", help=text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long."""
    items.sort(key=begins_late)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections: hardly any of their million objects is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude the collected tests, a million objects, from Python's garbage collections."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude also what a file's tests leave: frameworks that they imported stay to the end."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: "Producer"
) -> "LoadScopeScheduling | None":
    """Share tests out by files and groups of files with `--dist loadfile`."""
    from tests.scheduling import FilesTogether

    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def data_folder() -> Iterator[Path]:
    """Lend an empty data folder (MLSCOPE_DATA) for one test, then removed afterwards."""
    with lent_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def nats_server() -> "Iterator[NatsServer]":
    """Run a nats-server with JetStream and every user's permissions; nothing is provisioned."""
    from cli.cluster.servers.nats_server import NatsServer

    with lent_folder("nats") as folder, NatsServer(folder) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """Run a PostgreSQL; take `database_url` for a database of one's own."""
    from cli.cluster.servers.postgres import Postgres

    with lent_folder("postgres") as folder, Postgres(folder, durable=False) as server:
        yield server


@pytest.fixture
def database_url(postgres: "Postgres") -> Iterator[str]:
    """Make a fresh, empty database for one test: a superuser's URL with its password."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.admin_url(), autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}"')
        yield postgres.admin_url(name)
        session.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
