"""The two clusters that trials share: one with one broker, one with three; and their hosts (I/O).

`one`     the cluster's host with broker and database, each on a small disk; the agent's host
`three`   the cluster's host with the database and the agent; three hosts with a broker each
"""

import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from cli.cluster.commands import up_detached
from cli.cluster.errors import NotUp
from cli.cluster.ports import LOOPBACK
from cli.cluster.state import ProcessState, is_locked, read_state
from mlscope import Client
from mlscope.client.errors import ClientError
from mlscope.settings import Settings
from tests.disks import mount_small, unmount
from tests.faults.supervised import Place
from tests.faults.trials import DISKS, Load
from tests.fleet.hosts import ADDRESS, CLOCK, Host, cut, network, why_not
from tests.flow.clusters import copy_few_manifests
from tests.places import lent_folder

ENVIRON = {
    "MLSCOPE_LEASE_TTL_S": "3",
    "MLSCOPE_HEARTBEAT_S": "0.5",
    "MLSCOPE_LIVE_INTERVAL_S": "0.2",
    "MLSCOPE_GATEWAY_PORT": "0",
    "MLSCOPE_DEFAULT_BUDGET_S": "0",
    "MLSCOPE_AGENT_PREDICTORS": "onnxruntime",
    "MLSCOPE_AGENT_ID": "only",
    "MLSCOPE_MODELS": "any",
    "PYTHONPATH": str(CLOCK),
}
WELL_WITHIN_S = 60.0
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True, slots=True)
class Content:
    """What a run measured: digests of all but its times."""

    #: by query and part
    queries: dict[int, dict[str, str]]
    #: by sample, of its answers, each with its query
    answers: dict[int, list[tuple[int, str]]]


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Have this thread, and what it starts, live in a network namespace; '' is no namespace."""
    if not namespace:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), namespace)
        yield
    finally:
        libc.setns(before, _CLONE_NEWNET)
        os.close(before)
        os.close(there)


@dataclass
class World:
    """A running cluster, and what trials ask of it."""

    name: str
    folder: Path
    manifests: Path
    hub: Host | None
    hosts: list[Host]
    #: why it has no small disks, '' where it has
    no_disks: str = ""
    #: rows and distinct rows that must be in the database, by table and run key
    kept: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def places(self) -> list[Place]:
        """The hosts that its programs run on."""
        if self.hub is None:
            return [Place("", LOOPBACK)] * (4 if self.name == "three" else 1)
        others = [Place(host.namespace, f"10.77.{host.number}.2") for host in self.hosts]
        return [Place("", ADDRESS), *others]

    def client(self) -> Client:
        """Return a requester's client."""
        return Client(data=self.folder)

    def processes(self) -> dict[str, ProcessState]:
        """Return every process by name."""
        return {process.name: process for process in read_state(self.folder).processes}

    def restarts(self) -> dict[str, int]:
        """Return how often each process was started again."""
        return {name: process.restarts for name, process in self.processes().items()}

    def settings(self, key: str) -> Settings:
        """Return settings that connect with one of the cluster's keys, and to its database."""
        state = read_state(self.folder)
        return Settings.read(
            {
                "MLSCOPE_NATS_URL": state.nats_url,
                "MLSCOPE_NATS_SEED_FILE": str(self.folder / "keys" / f"{key}.nk"),
                "MLSCOPE_DATABASE_URL": state.database_url,
                "MLSCOPE_DATABASE_PASSWORD_FILE": state.database_password_file,
            }
        )

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return what the database answers."""
        with psycopg.connect(self.settings("requester").database_conninfo()) as session:
            return session.execute(statement.encode(), values).fetchall()

    def set_clock(self, offset_ns: int) -> None:
        """Set the wall clock of every Python program of the cluster this far off."""
        with (self.folder / "clock").open("r+b") as clock:
            clock.write(offset_ns.to_bytes(8, "little", signed=True))

    def cut(self, host: Host, *, is_cut: bool) -> None:
        """Take a host's wire away, or give it back."""
        assert self.hub is not None
        cut(self.hub, host, is_cut=is_cut)

    def await_well(self) -> None:
        """Return once every process is ready and the agent takes work."""
        deadline = time.monotonic() + WELL_WITHIN_S
        while why := self.why_unwell():
            if time.monotonic() > deadline:
                raise AssertionError(f"the cluster is not well after {WELL_WITHIN_S:g} s: {why}")
            time.sleep(0.1)

    def why_unwell(self) -> str:
        """Return what is not ready; '' when all is."""
        states = {name: process.state for name, process in self.processes().items()}
        if waiting := [f"{name} {state}" for name, state in states.items() if state != "ready"]:
            return ", ".join(waiting)
        with suppress(ClientError), self.client() as client:
            agents = client.catalog("agent").agents
            return "" if [each.state for each in agents] == ["live"] else f"agents {agents}"
        return "no catalog"

    def up(self) -> None:
        """Start it."""
        clock = self.folder / "clock"
        clock.write_bytes(bytes(8))
        clock.chmod(0o644)
        places = ",".join(f"{place.namespace}={place.address}" for place in self.places)
        argv = [sys.executable, "-m", "tests.faults.supervised", str(self.folder), places]
        environ = {
            **ENVIRON,
            "MLSCOPE_DATA": str(self.folder),
            "MLSCOPE_MANIFESTS": str(self.manifests),
            "TEST_CLOCK_FILE": str(clock),
        }
        os.environ.update(environ)
        try:
            assert up_detached(self.folder, argv) == 0
        finally:
            for name in environ:
                del os.environ[name]
        self.await_well()

    def down(self) -> None:
        """Stop it, and wait until all has ended."""
        with suppress(NotUp):
            state = read_state(self.folder)
            if state.is_up:
                os.kill(state.supervisor.pid, signal.SIGTERM)
            deadline = time.monotonic() + 60
            while (state.is_up or is_locked(self.folder)) and time.monotonic() < deadline:
                time.sleep(0.05)


class Worlds:
    """Both clusters, each started when a trial first asks for it; `with` ends them."""

    def __init__(self) -> None:
        """Lay the network where that is possible."""
        self.no_network = why_not()
        self.baselines: dict[Load, dict[str, Content]] = {}
        self._network = ExitStack()
        self._running: dict[str, tuple[World, ExitStack]] = {}

    def __enter__(self) -> "Worlds":
        """Make the hosts, and live on the cluster's."""
        self._hub: Host | None = None
        self._hosts: list[Host] = []
        if not self.no_network:
            self._hub, self._hosts = self._network.enter_context(network({}, {}, {}, {}))
            self._network.enter_context(inside(self._hub.namespace))
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        return self

    def __exit__(self, *_: object) -> None:
        """End both clusters and their network."""
        for name in [*self._running]:
            self.end(name)
        self._network.close()

    def world(self, name: str) -> World:
        """Return the cluster `one` or `three`, running."""
        if name not in self._running:
            started = ExitStack()
            self._running[name] = started.enter_context(self._started(name)), started
        return self._running[name][0]

    def end(self, name: str, keep_logs: Path | None = None) -> None:
        """End a cluster that has started, so that the next trial starts a new one.

        Its logs are copied to `keep_logs`, if given.
        """
        if name not in self._running:
            return
        world, started = self._running.pop(name)
        if keep_logs is not None:
            shutil.copytree(world.folder / "logs", keep_logs, dirs_exist_ok=True)
        started.close()

    @contextmanager
    def _started(self, name: str) -> Iterator[World]:
        hosts = self._hosts[:1] if name == "one" else self._hosts[1:]
        with (
            lent_folder("faults") as folder,
            lent_folder("manifests") as manifests,
            ExitStack() as disks,
        ):
            copy_few_manifests(manifests)
            world = World(name, folder, manifests, self._hub, hosts)
            for disk in DISKS if name == "one" else ():
                (folder / disk).mkdir()
                world.no_disks = world.no_disks or mount_small(folder / disk)
                disks.callback(unmount, folder / disk)
            try:
                world.up()
                yield world
            finally:
                world.down()
