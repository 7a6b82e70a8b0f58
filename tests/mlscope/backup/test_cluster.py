"""A backup of real servers, restored into new ones: the same messages, places, files and rows."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.backup.archive import Contents, reading, writing
from mlscope.backup.cluster import back_up, restore, stream_order
from mlscope.backup.database import note_saved, save_database
from mlscope.backup.errors import BrokenBackup, NewerBackup, NotEmpty
from mlscope.bus.nats import connect
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import StoredMessage, read_on
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.evaluation import EvaluationCancelled
from services.analyzer.store import migrate as migrate_analyzer
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from services.collector.store import Store, migrate
from tests.brokers import three_brokers
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_plan,
    a_request,
    a_trace,
    some_queries,
)

LARGE = "x" * 600_000
ROWS = "SELECT * FROM {} ORDER BY 1, 2, 3"

SettingsOf = Callable[[str], Settings]


def settings_in(server: NatsServer, database_url: str) -> SettingsOf:
    def of(name: str) -> Settings:
        return Settings(
            nats_url=server.url, nats_seed_file=server.seed_files[name], database_url=database_url
        )

    return of


@pytest.fixture
def other_database(database_url: str) -> Iterator[str]:
    """Make a second empty database."""
    base, _, name = database_url.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}_b"')
        yield f"{base}/{name}_b"
        session.execute(f'DROP DATABASE "{name}_b" WITH (FORCE)')


async def filled(settings_of: SettingsOf) -> None:
    """Provision a cluster and put something of every kind into it."""
    await provision(settings_of("provisioner"))
    address = settings_of("provisioner").database_url
    migrate(address)
    migrate_analyzer(address)
    with closing(Store(address)) as rows:
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in (some_queries(), a_trace())])
        row = run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0")
        rows.end_run(row)
        rows.settle(row["run_key"], "recorded", 2)
    async with connect(settings_of("scheduler"), "scheduler") as scheduler:
        for number, fact in enumerate((a_request(), a_plan())):
            await scheduler.publish(fact, id=f"f{number}")
        large = EvaluationCancelled(evaluation="e2", reason=LARGE)
        await scheduler.publish(large, id="large")
        async with aclosing(scheduler.deliveries("scheduler")) as deliveries:
            (delivery,) = await anext(deliveries)
            await delivery.ack()
    async with connect(settings_of("agent"), "agent") as agent:
        await agent.publish(a_trace(), id="t0")
    async with connect(settings_of("registry"), "registry") as registry:
        await registry.put("catalog", "model_tiny", b"{}")


async def messages(settings: Settings) -> dict[str, list[StoredMessage]]:
    """Return every message of the streams that the scheduler and the registry may read."""
    connection = Connection(settings, "scheduler")
    await connection.open(10.0)
    try:
        names = ("EVALUATIONS", "FLEET", "KV_catalog", "OBJ_payloads")
        return {name: (await read_on(connection, name, ">", 0))[0] for name in names}
    finally:
        await connection.close()


def rows(address: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(address) as session:
        names = ("run", "span", "query", "batch", "span_name")
        return {name: session.execute(ROWS.format(name).encode()).fetchall() for name in names}


def unsaved(address: str) -> int:
    with closing(Store(address)) as store:
        return store.unsaved_evaluations()[0]


def saved_up_to(address: str) -> dict[str, int]:
    with closing(Store(address)) as store:
        return store.saved_up_to()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_restored_cluster_is_as_it_was(
    data_folder: Path, tmp_path: Path, database_url: str, other_database: str
) -> None:
    file = tmp_path / "cluster.backup"
    with NatsServer(data_folder / "a") as server:
        one = settings_in(server, database_url)
        await filled(one)
        assert unsaved(database_url) == 1
        contents = await back_up(one("provisioner"), file)
        assert unsaved(database_url) == 0
        assert saved_up_to(database_url) == {"TRACES": 1, "QUERIES": 0}
        before = await messages(one("scheduler"))
    assert list(contents.streams) == stream_order()
    assert [len(stored) for stored in before.values()] == [3, 0, 1, 2]
    assert file.stat().st_mode & 0o077 == 0
    assert names_in(tmp_path) == ["cluster.backup"]
    with NatsServer(data_folder / "b") as server:
        other = settings_in(server, other_database)
        migrate(other_database)
        migrate_analyzer(other_database)
        await restore(other("provisioner"), file)
        assert await messages(other("scheduler")) == before
        assert rows(other_database) == rows(database_url)
        assert unsaved(other_database) == 0
        assert saved_up_to(other_database) == {"TRACES": 1, "QUERIES": 0}
        await provision(other("provisioner"))
        async with connect(other("scheduler"), "scheduler") as bus:
            async with aclosing(bus.deliveries("scheduler")) as deliveries:
                assert [one.recorded.sequence for one in await anext(deliveries)] == [2]
            *_, large = await bus.read("mlscope.v1.evaluation.>")
            assert isinstance(large.fact, EvaluationCancelled)
            assert (large.sequence, large.fact.reason) == (3, LARGE)
        with pytest.raises(NotEmpty, match="rows in the table"):
            await restore(other("provisioner"), file)


async def test_a_backup_of_three_brokers_is_restored_into_one(
    data_folder: Path, tmp_path: Path, database_url: str, other_database: str
) -> None:
    file = tmp_path / "three.backup"
    with three_brokers() as brokers:
        three = replace(brokers.settings("provisioner"), database_url=database_url)
        await provision(three)
        migrate(database_url)
        migrate_analyzer(database_url)
        async with connect(brokers.settings("scheduler"), "scheduler") as scheduler:
            await scheduler.publish(a_request(), id="f0")
        await back_up(three, file)
    with NatsServer(data_folder) as server:
        one = settings_in(server, other_database)
        migrate(other_database)
        migrate_analyzer(other_database)
        await restore(one("provisioner"), file)
        await provision(one("provisioner"))
        async with connect(one("scheduler"), "scheduler") as scheduler:
            assert len(await scheduler.read("mlscope.v1.evaluation.>")) == 1


async def test_a_restore_into_what_has_streams_is_refused(
    data_folder: Path, tmp_path: Path, database_url: str, other_database: str
) -> None:
    with NatsServer(data_folder) as server:
        one, other = settings_in(server, database_url), settings_in(server, other_database)
        await filled(one)
        await back_up(one("provisioner"), tmp_path / "b")
        before = await messages(one("scheduler"))
        migrate(other_database)
        migrate_analyzer(other_database)
        with pytest.raises(NotEmpty, match="the streams CATALOG"):
            await restore(other("provisioner"), tmp_path / "b")
        assert await messages(one("scheduler")) == before
        assert rows(other_database)["run"] == []


async def test_a_database_older_than_the_backup_is_refused(
    data_folder: Path, tmp_path: Path, database_url: str, other_database: str
) -> None:
    with NatsServer(data_folder) as server:
        one, other = settings_in(server, database_url), settings_in(server, other_database)
        await filled(one)
        with psycopg.connect(database_url) as session:
            session.execute("INSERT INTO schema_version VALUES ('collector', '9999_future')")
        await back_up(one("provisioner"), tmp_path / "b")
        migrate(other_database)
        migrate_analyzer(other_database)
        with pytest.raises(NewerBackup):
            await restore(other("provisioner"), tmp_path / "b")


async def test_streams_that_mlscope_does_not_know_are_not_restored(
    nats_server: NatsServer, tmp_path: Path, database_url: str
) -> None:
    with writing(tmp_path / "b", Contents("9.9", "now")) as writer:
        writer.contents.streams["SPY"] = {"config": {"subjects": [">"]}, "state": {}}
    with pytest.raises(NewerBackup, match=r"made by mlscope 9\.9"):
        await restore(settings_in(nats_server, database_url)("provisioner"), tmp_path / "b")


def test_a_database_that_is_not_migrated_yet_is_saved_too(
    tmp_path: Path, database_url: str
) -> None:
    migrate(database_url)
    with psycopg.connect(database_url) as session:
        session.execute("DROP TABLE saved_run, saved_up_to CASCADE")
    with writing(tmp_path / "b", Contents("1", "now")) as writer:
        saved = save_database(database_url, writer)
    note_saved(database_url, saved, {"TRACES": 1})
    assert "run" in writer.contents.tables


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_bytes(b"no zip")
    with pytest.raises(BrokenBackup), reading(file):
        pass
    odd = ('{"made_by": "1", "made_at": "", "tables": 5}', '{"made_by": "1"}', "[" * 100_000, "5")
    for manifest in odd:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("manifest.json", manifest)
        with pytest.raises(BrokenBackup), reading(file):
            pass
    manifest = '{"made_by": "1", "made_at": "", "sha256": {"database/run.copy": "00"}}'
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("database/run.copy", "changed")
    with pytest.raises(BrokenBackup, match=r"run\.copy does not match its checksum"), reading(file):
        pass
