"""The state of a cluster: its file (`cluster.json`, without secrets) and the lock of its folder."""

import dataclasses
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.cluster.errors import AlreadyUp, ForeignFolder, ForeignState, NotUp
from cli.cluster.processes import Identity, is_alive

_STATE = "cluster.json"
_OF_OTHER_USERS = ("agents", "postgres")
"""Folders that have files of users of their own, if this one is root: of workers, the database."""
_LOCK = "cluster.lock"


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process: `state` is starting, ready, silent, waiting (to be started again) or stopped.

    A `silent` one runs, but does not answer over the bus.
    """

    name: str
    state: str
    identity: Identity | None
    since: float
    """When it was last started, in seconds since the epoch."""
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
    authority_file: str = ""
    """What its clients trust, where it listens for other machines with an authority of its own."""
    gateway_token_file: str = ""
    """The secret that its pages ask for."""

    @property
    def is_up(self) -> bool:
        """Whether its supervisor runs."""
        return is_alive(self.supervisor)

    @property
    def alive(self) -> dict[str, Identity]:
        """Its processes that run, by name."""
        return {
            process.name: process.identity
            for process in self.processes
            if process.identity is not None and is_alive(process.identity)
        }


def write_state(folder: Path, state: ClusterState) -> None:
    """Replace the state file in one step; nobody else may read it."""
    partial = folder / f".{_STATE}.partial"
    partial.touch(mode=0o600)
    partial.chmod(0o600)
    partial.write_text(json.dumps(dataclasses.asdict(state), indent=2) + "\n", "utf-8")
    partial.replace(folder / _STATE)


def make_own(folder: Path) -> None:
    """Make the `folder` of data, or take one that is this user's alone. Raises ForeignFolder.

    Whoever could put a key there, before the cluster did, would know it; in a log's place, a link
    would lead to another file. From now on, this process and those that it starts make nothing that
    others may write: in a folder that a group shares, they would have by their umask.
    """
    os.umask(os.umask(0o077) | 0o022)
    folder.mkdir(parents=True, exist_ok=True)
    _close(folder)
    unvisited = [folder]
    while unvisited:
        # A folder is closed before it is read: nobody puts in more.
        parent = unvisited.pop()
        try:
            paths = list(parent.iterdir())
        except FileNotFoundError:
            continue  # a cluster that runs has removed it
        except PermissionError:
            if parent.lstat().st_uid != 0:
                raise
            continue  # root's alone, as `lost+found`
        for path in paths:
            with suppress(FileNotFoundError):
                _close(path)
                is_of_others = path.parent == folder and path.name in _OF_OTHER_USERS
                if path.is_dir() and not path.is_symlink() and not is_of_others:
                    unvisited.append(path)


def _close(path: Path) -> None:
    """Take a folder from the writing of others. Raises ForeignFolder where it is another user's."""
    state = path.lstat()
    if state.st_uid not in _trusted():
        raise ForeignFolder(path, state.st_uid)
    if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and state.st_mode & 0o022:
        path.chmod(state.st_mode & ~0o022)


def _trusted() -> tuple[int, int]:
    """Return the users whose files lead nobody astray: this one and root."""
    return os.geteuid(), 0


def read_state(folder: Path) -> ClusterState:
    """Return the state that the last cluster of `folder` wrote.

    Raises NotUp without one, ForeignState for one of another user.
    """

    def process_state(fields: dict[str, Any]) -> ProcessState:
        identity = fields["identity"] and Identity(**fields["identity"])
        return ProcessState(**{**fields, "identity": identity})

    try:
        with (folder / _STATE).open(encoding="utf-8") as file:
            if (owner := os.fstat(file.fileno()).st_uid) not in _trusted():
                raise ForeignState(folder, owner)
            fields = json.load(file)
        processes = tuple(map(process_state, fields.pop("processes")))
        supervisor = Identity(**fields.pop("supervisor"))
        return ClusterState(**fields, supervisor=supervisor, processes=processes)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise NotUp(folder) from None


def owner_of_state(folder: Path) -> int | None:
    """Return the user as whom the last cluster of `folder` ran, None without one."""
    try:
        return (folder / _STATE).stat().st_uid
    except OSError:
        return None


def running_state(folder: Path) -> ClusterState:
    """Return the state of the cluster that runs from this folder. Raises `NotUp`."""
    state = read_state(folder)
    if not state.is_up:
        raise NotUp(folder)
    return state


def previous_ports(folder: Path) -> Mapping[str, int]:
    """Return the ports of the last cluster of this folder; empty when there was none."""
    try:
        return read_state(folder).ports
    except NotUp:
        return {}


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock the data folder; the kernel unlocks it when the process dies. Raises `AlreadyUp`."""
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
    """Tell whether a supervisor has locked this folder."""
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
        "MLSCOPE_GATEWAY_TOKEN_FILE": state.gateway_token_file,
        **({"MLSCOPE_TLS_AUTHORITY_FILE": state.authority_file} if state.authority_file else {}),
    }
