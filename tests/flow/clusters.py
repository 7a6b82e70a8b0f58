"""A local cluster started with the user's own command, and what tests ask of it."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import httpx
import psycopg

from cli.cluster.state import ProcessState, read_state
from mlscope import Client
from mlscope.client.errors import EvaluationRefused
from mlscope.settings import Settings
from schemas.status import EvaluationStatus
from tests.ending import stopped_in_the_end
from tests.forking.commands import STARTERS, Service, run_mlscope, start_service
from tests.places import server_folder

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[2]
SHIPPED = REPOSITORY / "manifests"
CATALOGS = ("keras", "networks", "packages", "timm", "torchvision")
"""Folders of five hundred models that no test of a cluster opens."""
SETTINGS = {
    "MLSCOPE_LEASE_TTL_S": "3",
    "MLSCOPE_HEARTBEAT_S": "0.5",
    "MLSCOPE_GATEWAY_PORT": "0",
    "MLSCOPE_AGENT_ID": "first",
    # Every load is one block, unless the request says otherwise.
    "MLSCOPE_DEFAULT_BUDGET_S": "0",
}
SERVICES = ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster's data folder and the settings it was started with."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def mlscope(self, *arguments: str, code: int = 0, **kwargs: Any) -> str:
        """Run the command line against this cluster and return its output."""
        environ = self.environment()
        if arguments[0] not in STARTERS and "PYTHONPATH" in self.environ:
            # Packages of the agent's own: who asks has none of them.
            environ = {**environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        done = run_mlscope(arguments, environ, **kwargs)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, f"mlscope {arguments}: {out}\n{err}"
        return out

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a command of this cluster."""
        own = {**os.environ, **SETTINGS, **self.environ, "MLSCOPE_DATA": str(self.folder)}
        return {**own, **more}

    def key(self, name: str) -> Path:
        """Return the file with a connection's secret."""
        return self.folder / "keys" / f"{name}.nk"

    def get(self, path: str, *, token: bool = True) -> int:
        """Ask the gateway for a path, with its token or without; return the answer's status."""
        bearer = {"Authorization": f"Bearer {self.token()}"} if token else {}
        return httpx.get(f"{read_state(self.folder).gateway_url}{path}", headers=bearer).status_code

    def token(self) -> str:
        """Return the gateway's token."""
        return (self.folder / "keys" / "gateway.token").read_text("ascii").strip()

    def pages_url(self) -> str:
        """Return the address that logs a browser in, as the user's command gives it."""
        return self.mlscope("open", "--print").strip()

    @property
    def nats_url(self) -> str:
        """Return where the server is."""
        return read_state(self.folder).nats_url

    def settings(self, name: str) -> Settings:
        """Return the settings of a connection that has one of the cluster's keys."""
        environ = {"MLSCOPE_NATS_URL": self.nats_url, "MLSCOPE_NATS_SEED_FILE": str(self.key(name))}
        return Settings.read(environ)

    def client(self) -> Client:
        """Return a requester's client."""
        return Client(data=self.folder)

    def processes(self) -> dict[str, ProcessState]:
        """Return every process by name."""
        return {one.name: one for one in read_state(self.folder).processes}

    def pid(self, name: str) -> int:
        """Return a process's id."""
        identity = self.processes()[name].identity
        assert identity is not None, f"{name} does not run"
        return identity.pid

    def restarted(self) -> dict[str, int]:
        """Return how often each process was started again, those that were."""
        return {one.name: one.restarts for one in self.processes().values() if one.restarts}

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return what the database answers."""
        state = read_state(self.folder)
        settings = Settings.read(
            {
                "MLSCOPE_DATABASE_URL": state.database_url,
                "MLSCOPE_DATABASE_PASSWORD_FILE": state.database_password_file,
            }
        )
        with psycopg.connect(settings.database_conninfo()) as session:
            return session.execute(statement.encode(), values).fetchall()

    def service(self, name: str, **more: str) -> Service:
        """Start another instance of a service by hand."""
        state = read_state(self.folder)
        environ = self.environment(
            MLSCOPE_NATS_URL=state.nats_url,
            MLSCOPE_NATS_SEED_FILE=str(self.key(name)),
            MLSCOPE_DATABASE_URL=state.database_url,
            MLSCOPE_DATABASE_PASSWORD_FILE=state.database_password_file,
            MLSCOPE_GATEWAY_URL=state.gateway_url,
            **more,
        )
        with (self.folder / "logs" / f"second-{name}.log").open("ab") as log:
            return start_service(name, environ, log)


def _wait_for_manifests(cluster: Cluster) -> None:
    """Wait until the scheduler has read what the registry published; a busy machine takes long."""
    deadline = time.monotonic() + 120
    with cluster.client() as client:
        while time.monotonic() < deadline:
            try:
                client.run("identity", dataset="vectors", agents=["ghost"], wait_s=0)
            except EvaluationRefused as refusal:
                if refusal.error == "unsatisfiable":
                    return
            time.sleep(0.1)
    raise AssertionError("the scheduler does not know the shipped manifests")


def copy_few_manifests(folder: Path) -> None:
    """Copy the shipped manifests into a folder, without the `CATALOGS`.

    Registry, agent, broker, scheduler and gateway take seconds of a processor for those.
    """
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns(*CATALOGS), dirs_exist_ok=True)


@contextmanager
def running(
    environ: Mapping[str, str] = MappingProxyType({}),
    folder: Path | None = None,
    *,
    has_all_models: bool = False,
) -> Iterator[Cluster]:
    """Run a cluster with further settings until the block ends; a folder of its own is removed.

    It has few of the shipped models, unless it `has_all_models` or the settings name a folder.
    """
    manifests = server_folder("manifests")
    removed = [manifests] if folder else [manifests, server_folder("flow")]
    folder = folder or removed[-1]
    folder.chmod(0o711)
    if not has_all_models and "MLSCOPE_MANIFESTS" not in environ:
        copy_few_manifests(manifests)
        environ = {"MLSCOPE_MANIFESTS": str(manifests), **environ}
    cluster = Cluster(folder, environ)
    with stopped_in_the_end(folder, *removed):
        cluster.mlscope("up", "--detach")
        _wait_for_manifests(cluster)
        yield cluster


def run(cluster: Cluster, model: Any = "identity", **request: Any) -> EvaluationStatus:
    """Evaluate and return how it ended."""
    with cluster.client() as client:
        return client.run(model, **request).wait(60)


def online(queries: int = 5, name: str = "online", **parameters: Any) -> list[dict[str, Any]]:
    """Return a scenario of so many queries as a request writes it."""
    return [{"name": name, "parameters": {"queries": queries, **parameters}}]


def assert_well(cluster: Cluster) -> None:
    """Check that no process died and that the next good run is right."""
    assert cluster.restarted() == {}
    good = run(cluster, scenarios=online())
    assert (good.state, [each.answered for each in good.runs]) == ("analyzed", [5]), good


def until(found: Callable[[], T], within_s: float = 20.0, poll_s: float = 0.05) -> T:
    """Return what `found` gives once it is true; fails when that takes too long."""
    deadline = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"{found} is still {value!r}"
        time.sleep(poll_s)
    return value
