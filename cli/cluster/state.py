"""The state of a cluster: its file (`cluster.json`, without secrets), its lock, its display."""

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from cli.cluster.errors import AlreadyUp, NotUp
from cli.cluster.logins import with_login
from cli.cluster.processes import Identity, is_alive

_STATE = "cluster.json"
_LOCK = "cluster.lock"
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


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


def read_state(folder: Path) -> ClusterState:
    """Return the state that the last cluster of `folder` wrote. Raises `NotUp` without one."""

    def process_state(fields: dict[str, Any]) -> ProcessState:
        identity = fields["identity"] and Identity(**fields["identity"])
        return ProcessState(**{**fields, "identity": identity})

    try:
        fields = json.loads((folder / _STATE).read_text("utf-8"))
        processes = tuple(map(process_state, fields.pop("processes")))
        supervisor = Identity(**fields.pop("supervisor"))
        return ClusterState(**fields, supervisor=supervisor, processes=processes)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise NotUp(folder) from None


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


def status_table(state: ClusterState, now: float, database: str, pages: str) -> str:
    """Return the addresses and a table with a line for each process of the cluster in `state`.

    `state`: the cluster's; `now`: seconds since the epoch; `database`: the name and version of the
    database that answers; `pages`: the address that opens the pages.
    """
    rows = [("PROCESS", "STATE", "RESTARTS", "PID", "UP")]
    for process in state.processes:
        pid = uptime = "-"
        if process.identity is not None:
            pid, up_s = str(process.identity.pid), max(0.0, now - process.since)
            length_s, unit = next((entry for entry in _UNITS if up_s >= entry[0]), (1, "s"))
            uptime = f"{up_s / length_s:.0f}{unit}"
        rows.append((process.name, process.state, str(process.restarts), pid, uptime))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    password_file = state.database_password_file
    details = f"{database}; password: {password_file}" if password_file else database
    token = f"  (token: {state.gateway_token_file})" if state.gateway_token_file else ""
    lines = [
        f"phase     {state.phase}",
        f"pages     {pages}{token}",
        f"nats      {state.nats_url}  (key: {state.requester_seed_file})",
        f"database  {state.database_url}  ({details})",
        "",
    ]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


def summary(state: ClusterState, pages: str) -> str:
    """Return the cluster's `state` in one line, with the address of its `pages` once it runs."""
    ready = sum(process.state == "ready" for process in state.processes)
    restarts = sum(process.restarts for process in state.processes)
    parts = [f"mlscope {state.phase}", f"{ready} of {len(state.processes)} ready"]
    if restarts:
        parts.append(f"{restarts} restarts")
    if state.phase == "running":
        parts += [pages, state.nats_url]
    return " · ".join(parts)


class StatusLine:
    """The cluster's state in one line: rewritten on a terminal, else printed when it changes."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._rewrites = stream.isatty()
        self._last = self._pages = ""

    def show(self, state: ClusterState) -> None:
        """Show `state` if its line differs from the last one.

        On a terminal the address of the pages logs in; a log has none that does.
        """
        if not self._pages and state.phase == "running":
            token_file = Path(state.gateway_token_file) if self._rewrites else None
            self._pages = with_login(state.gateway_url, token_file)
        line = summary(state, self._pages)
        if line == self._last:
            return
        self._last = line
        self._stream.write(f"\r\x1b[K{line}" if self._rewrites else f"{line}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        """Return the line."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the line."""
        if self._rewrites and self._last:
            self._stream.write("\n")
