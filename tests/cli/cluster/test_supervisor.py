"""A whole cluster with stubs for services: it starts, mends itself, and leaves nothing behind."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cli.cluster import commands
from cli.cluster.errors import NotAnAddress, NotUp
from cli.cluster.plan import Programs
from cli.cluster.ports import chosen_ports, is_free
from cli.cluster.processes import Identity, is_alive
from cli.cluster.servers.nats_server import greets
from cli.cluster.state import ClusterState, read_state, requester_environ, running_state
from cli.cluster.supervisor import run_cluster
from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.connection import Connection
from mlscope.client.connection import find_settings
from mlscope.settings import Settings

STUB = Path(__file__).with_name("stub_cluster.py")
SERVICES = ("registry", "collector", "gateway")


class Cluster:
    """A cluster in a process of its own, its services stubs."""

    def __init__(self, folder: Path, *services: str) -> None:
        environ = {
            **os.environ,
            "MLSCOPE_GATEWAY_PORT": "0",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(STUB), str(folder), *services],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environ,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.seen: list[str] = []

    def until(self, words: str) -> ClusterState:
        """Read what the cluster says until a line holds `words`."""
        for line in self.output:
            self.seen.append(line)
            if words in line:
                return read_state(self.folder)
        raise AssertionError("".join(self.seen))

    def identities(self) -> dict[str, Identity]:
        """Return every process that runs now, by its name."""
        processes = read_state(self.folder).processes
        return {one.name: one.identity for one in processes if one.identity is not None}

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """End the supervisor by a signal, and return all that it said."""
        self.process.send_signal(number)
        with self.output:
            self.seen += self.output.readlines()
        self.process.wait(30)
        return "".join(self.seen)


StartCluster = Callable[..., Cluster]


@pytest.fixture
def cluster(data_folder: Path) -> Iterator[StartCluster]:
    """Lend a function that starts a cluster with the services named; all are ended in the end."""
    started: list[Cluster] = []

    def start(*services: str) -> Cluster:
        started.append(Cluster(data_folder, *(services or SERVICES)))
        return started[-1]

    yield start
    for one in started:
        if not one.output.closed:
            one.end()


def arguments(folder: Path, output: str = "json") -> argparse.Namespace:
    """Return the arguments of `status` and `down`."""
    return argparse.Namespace(data=folder, output=output, detach=False)


def wait_until_gone(identities: Iterable[Identity]) -> None:
    """Wait until none runs; pytest's time limit bounds it."""
    while any(is_alive(one) for one in identities):
        os.sched_yield()


def test_all_that_was_started_is_stopped(cluster: StartCluster, data_folder: Path) -> None:
    one = cluster()
    one.until("mlscope running")
    identities = one.identities()
    assert set(identities) == {"nats", "postgres", *SERVICES}
    assert all(is_alive(identity) for identity in identities.values())
    one.end()
    assert one.process.returncode == 0
    assert not any(is_alive(identity) for identity in identities.values())
    assert read_state(data_folder).phase == "stopped"


def test_nothing_outlives_a_supervisor_that_is_killed(cluster: StartCluster) -> None:
    one = cluster("registry", "gateway")
    port = one.until("mlscope running").ports["gateway"]
    identities = one.identities().values()
    one.end(signal.SIGKILL)
    wait_until_gone(identities)
    assert is_free(port)
    again = cluster("registry")
    again.until("mlscope running")


@pytest.mark.parametrize(
    "victim", ["nats", pytest.param("postgres", marks=pytest.mark.long), "collector"]
)
def test_what_dies_is_started_again(cluster: StartCluster, victim: str) -> None:
    one = cluster("collector")
    one.until("mlscope running")
    before = one.identities()
    os.kill(before[victim].pid, signal.SIGKILL)
    one.until("1 restarts")
    state = one.until("3 of 3 ready")
    after = one.identities()
    assert after[victim] != before[victim]
    assert {name for name in after if after[name] != before[name]} == {victim}
    assert greets("127.0.0.1", state.ports["nats"])


def test_deaf_and_hung_services_are_not_ready_and_are_started_again(
    cluster: StartCluster, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_HEALTH_WAIT_S", "1")
    one = cluster("registry", "collector")
    one.until("4 of 4 ready")
    before = one.identities()
    deaf = data_folder / "deaf-collector"
    deaf.touch()
    os.kill(before["registry"].pid, signal.SIGSTOP)
    one.until("2 of 4 ready")
    states = {process.name: process.state for process in read_state(data_folder).processes}
    assert (states["collector"], states["registry"]) == ("silent", "silent")
    while one.identities().get("collector", before["collector"]) == before["collector"]:
        time.sleep(0.05)
    deaf.unlink()
    one.until("4 of 4 ready · 2 restarts")
    after = one.identities()
    assert {name for name in after if after[name] != before[name]} == {"collector", "registry"}


def test_a_service_that_keeps_dying_takes_nobody_with_it(
    cluster: StartCluster, data_folder: Path
) -> None:
    one = cluster("registry", "analyzer")
    one.until("4 of 4 ready")
    (data_folder / "die-analyzer").touch()
    os.kill(one.identities()["analyzer"].pid, signal.SIGKILL)
    one.until("3 restarts")
    states = {process.name: process for process in read_state(data_folder).processes}
    assert states["registry"].state == "ready"
    assert states["registry"].restarts == 0


def test_a_member_that_cannot_be_read_ends_nothing(
    cluster: StartCluster, data_folder: Path
) -> None:
    one = cluster("registry")
    one.until("mlscope running")
    before = one.identities()
    stray = data_folder / "keys" / "members" / "not an agent.pub"
    stray.parent.mkdir()
    stray.touch()
    one.process.send_signal(signal.SIGUSR1)
    one.until("no member")
    assert one.identities() == before


def test_ports_and_data_survive_a_restart(cluster: StartCluster, data_folder: Path) -> None:
    first = cluster("registry")
    state = first.until("mlscope running")
    password = Path(state.database_password_file).read_text().strip()
    with psycopg.connect(state.database_url, password=password) as session:
        session.execute("CREATE TABLE kept (a int)")
    seed = Path(state.requester_seed_file).read_text()
    first.end()
    again = cluster("registry").until("mlscope running")
    assert again.ports == state.ports
    assert Path(again.requester_seed_file).read_text() == seed
    with psycopg.connect(again.database_url, password=password) as session:
        assert session.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_each_service_gets_its_own_key_and_no_other_secret(
    cluster: StartCluster, data_folder: Path
) -> None:
    cluster().until("mlscope running")
    given = {
        name: json.loads((data_folder / f"given-{name}.json").read_text())
        for name in (*SERVICES, "provision")
    }
    seeds = {name: Path(one["MLSCOPE_NATS_SEED_FILE"]).name for name, one in given.items()}
    assert seeds == {
        "registry": "registry.nk",
        "collector": "collector.nk",
        "gateway": "gateway.nk",
        "provision": "provisioner.nk",
    }
    assert "MLSCOPE_DATABASE_PASSWORD_FILE" not in given["registry"]
    assert "MLSCOPE_DATABASE_PASSWORD_FILE" not in given["gateway"]
    assert "MLSCOPE_DATABASE_PASSWORD_FILE" in given["collector"]
    secrets = [path.read_text().strip() for path in (data_folder / "keys").iterdir()]
    assert len(secrets) == 15
    assert given["gateway"]["MLSCOPE_GATEWAY_TOKEN_FILE"] == str(
        data_folder.resolve() / "keys" / "gateway.token"
    )
    assert "MLSCOPE_GATEWAY_TOKEN_FILE" not in given["collector"]
    assert not any(secret in json.dumps(given) for secret in secrets)


def test_a_folder_has_one_cluster(cluster: StartCluster) -> None:
    first = cluster("registry")
    first.until("mlscope running")
    second = cluster()
    assert "AlreadyUp" in second.end(signal.SIGCONT)
    assert second.process.returncode == 1
    assert first.process.poll() is None


def test_a_provisioning_that_fails_ends_the_start(cluster: StartCluster, data_folder: Path) -> None:
    (data_folder / "given-provision.json").mkdir()
    one = cluster()
    one.until("mlscope provisioning")
    identities = one.identities().values()
    said = one.end(signal.SIGCONT)
    assert "ProvisionFailed" in said
    assert "IsADirectoryError" in said
    assert not any(is_alive(identity) for identity in identities)


def test_status_tells_of_every_process(
    cluster: StartCluster, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster("registry").until("mlscope running")
    assert commands.status(arguments(data_folder)) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["database"] == "PostgreSQL 18, without TimescaleDB"
    assert [one["state"] for one in shown["processes"]] == ["ready"] * 3
    assert commands.status(arguments(data_folder, "table")) == 0
    assert shown["gateway_url"] in capsys.readouterr().out


def test_down_leaves_nothing(
    cluster: StartCluster, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = cluster("registry")
    one.until("mlscope running")
    identities = one.identities().values()
    # Somebody must reap it: a supervisor whose parent does not wait would stay a zombie.
    assert commands.down(arguments(data_folder)) == 0
    assert not any(is_alive(identity) for identity in identities)
    assert capsys.readouterr().out.startswith("stopped nats, postgres, ")
    assert commands.status(arguments(data_folder)) == 3
    assert commands.down(arguments(data_folder)) == 0
    assert capsys.readouterr().out.startswith("nothing to stop: ")


def test_a_client_finds_the_cluster_by_its_folder(cluster: StartCluster, data_folder: Path) -> None:
    with pytest.raises(NotUp):
        running_state(data_folder)
    cluster("registry").until("mlscope running")
    environ = requester_environ(running_state(data_folder))
    assert Path(environ["MLSCOPE_NATS_SEED_FILE"]).name == "requester.nk"
    assert environ["MLSCOPE_NATS_URL"].startswith("nats://127.0.0.1:")


def test_a_database_that_is_named_is_used_instead(
    cluster: StartCluster, data_folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_DATABASE_URL", database_url)
    state = cluster("registry", "collector").until("mlscope running")
    assert {one.name for one in state.processes} == {"nats", "registry", "collector"}
    given = json.loads((data_folder / "given-collector.json").read_text())
    assert given["MLSCOPE_DATABASE_URL"] == database_url
    password = database_url.split(":")[2].split("@")[0]
    assert password not in (data_folder / "cluster.json").read_text()
    assert password not in (data_folder / "given-registry.json").read_text()


def test_detached_it_returns_once_all_is_ready(
    data_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_GATEWAY_PORT", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    argv = [sys.executable, str(STUB), str(data_folder), "registry"]
    try:
        assert commands.up_detached(data_folder, argv) == 0
        assert "PostgreSQL 18" in capsys.readouterr().out
        assert {one.state for one in running_state(data_folder).processes} == {"ready"}
        modes = {log.name: log.stat().st_mode & 0o77 for log in (data_folder / "logs").iterdir()}
        assert modes == dict.fromkeys(modes, 0), "nobody else reads what they say of people"
        assert "supervisor.log" in modes
    finally:
        assert commands.down(arguments(data_folder)) == 0


def test_detached_it_says_why_it_failed(
    data_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_folder / "given-provision.json").mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    argv = [sys.executable, str(STUB), str(data_folder)]
    assert commands.up_detached(data_folder, argv) == 1
    assert "ProvisionFailed" in capsys.readouterr().err
    assert read_state(data_folder).phase == "failed"


def test_detached_it_says_that_a_slow_start_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "UP_WITHIN_S", 0.01)
    assert commands.up_detached(tmp_path, ["sleep", "1"]) == 1
    assert "not ready after 0.01 s, and still starting" in capsys.readouterr().err


def test_two_clusters_that_start_at_once_differ_in_every_port(tmp_path: Path) -> None:
    with chosen_ports(tmp_path / "a", {}) as first, chosen_ports(tmp_path / "b", {}) as second:
        assert not set(first.values()) & set(second.values())


def test_the_gateways_port_may_be_asked_for(tmp_path: Path) -> None:
    with chosen_ports(tmp_path, {"MLSCOPE_GATEWAY_PORT": "45671"}) as chosen:
        assert chosen["gateway"] == 45671


def test_zero_asks_for_no_usual_port(tmp_path: Path) -> None:
    with chosen_ports(tmp_path, {"MLSCOPE_GATEWAY_PORT": "0"}) as chosen:
        assert not {4222, 8080} & set(chosen.values())


def test_the_six_services_are_served() -> None:
    assert set(Programs().services) == {
        "registry",
        "scheduler",
        "collector",
        "analyzer",
        "gateway",
        "agent",
    }


def test_a_cluster_listens_for_other_machines_with_tls(
    cluster: StartCluster, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Any address of 127.0.0.0/8 is this machine's; services do not listen on 127.0.0.1 then.
    monkeypatch.setenv("MLSCOPE_LISTEN", "127.0.0.2")
    state = cluster("registry", "gateway").until("mlscope running")
    assert state.nats_url.startswith("tls://127.0.0.2:")
    assert state.gateway_url.startswith("https://127.0.0.2:")
    settings = find_settings({}, data=str(data_folder))
    asyncio.run(open_and_close(settings))
    with pytest.raises(Unreachable, match="certificate verify failed"):
        asyncio.run(open_and_close(replace(settings, tls_authority_file=None)))
    given = json.loads((data_folder / "given-gateway.json").read_text())
    assert given["MLSCOPE_GATEWAY_HOST"] == "127.0.0.2"
    assert Path(given["MLSCOPE_GATEWAY_TOKEN_FILE"]).stat().st_mode & 0o077 == 0
    others = json.loads((data_folder / "given-registry.json").read_text())
    assert "MLSCOPE_TLS_KEY_FILE" not in others
    assert others["MLSCOPE_TLS_AUTHORITY_FILE"] == state.authority_file


async def open_and_close(settings: Settings) -> None:
    """Connect as a requester."""
    connection = Connection(settings, "requester")
    await connection.open(2.0)
    await connection.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.250", "::1", "no such name"])
def test_an_address_of_no_use_to_others_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(NotAnAddress, match=f"IPv4 address .*\n  address: {address}"):
        run_cluster(tmp_path, {}, os.getpid(), lambda _: None, address=address)
