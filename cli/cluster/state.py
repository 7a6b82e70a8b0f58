"""What a running cluster says of itself: `cluster.json` in the data folder. No secrets in it."""

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.cluster.errors import AlreadyUp, NotUp
from cli.cluster.identity import Identity, is_alive

_STATE = "cluster.json"
_LOCK = "cluster.lock"


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process: `state` is starting, ready, waiting (to be started again) or stopped."""

    name: str
    state: str
    identity: Identity | None
    since: float
    """When it was last started, seconds since the epoch."""
    restarts: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster: `phase` is servers, provisioning, services, running, stopping, stopped, failed."""

    phase: str
    supervisor: Identity
    nats_url: str
    monitor_url: str
    database_url: str
    database_password_file: str
    gateway_url: str
    requester_seed_file: str
    ports: Mapping[str, int]
    processes: tuple[ProcessState, ...] = ()
    reason: str = field(default="")
    """Why it failed."""

    @property
    def is_up(self) -> bool:
        """Whether its supervisor runs."""
        return is_alive(self.supervisor)


def write_state(folder: Path, state: ClusterState) -> None:
    """Replace the state file in one step."""
    partial = folder / f".{_STATE}.partial"
    partial.write_text(json.dumps(dataclasses.asdict(state), indent=2) + "\n", "utf-8")
    partial.replace(folder / _STATE)


def _identity(values: dict[str, Any] | None) -> Identity | None:
    return None if values is None else Identity(**values)


def read_state(folder: Path) -> ClusterState:
    """Return what the last cluster of this folder wrote. Raises NotUp when there was none."""
    try:
        values = json.loads((folder / _STATE).read_text("utf-8"))
        processes = tuple(
            ProcessState(**{**one, "identity": _identity(one["identity"])})
            for one in values.pop("processes")
        )
        supervisor = Identity(**values.pop("supervisor"))
        return ClusterState(**values, supervisor=supervisor, processes=processes)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise NotUp(folder) from None


def running_state(folder: Path) -> ClusterState:
    """Return the state of the cluster that runs from this folder. Raises NotUp."""
    state = read_state(folder)
    if not state.is_up:
        raise NotUp(folder)
    return state


def kept_ports(folder: Path) -> Mapping[str, int]:
    """Return the ports of the last cluster of this folder, or none."""
    try:
        return read_state(folder).ports
    except NotUp:
        return {}


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the data folder; the kernel lets go when the holder dies. Raises AlreadyUp."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyUp(folder) from None
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Tell whether a supervisor holds this folder."""
    if not (folder / _LOCK).exists():
        return False
    try:
        with folder_lock(folder):
            return False
    except AlreadyUp:
        return True


def requester_environ(state: ClusterState) -> dict[str, str]:
    """Return the `MLSCOPE_*` variables that a client of this cluster needs."""
    return {
        "MLSCOPE_NATS_URL": state.nats_url,
        "MLSCOPE_NATS_SEED_FILE": state.requester_seed_file,
        "MLSCOPE_GATEWAY_URL": state.gateway_url,
    }
