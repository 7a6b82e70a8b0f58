"""How a cluster's state is shown to people."""

from types import TracebackType
from typing import Self, TextIO

from cli.cluster.state import ClusterState, ProcessState

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def _duration(seconds: float) -> str:
    """Return a time span in its largest unit: `3m`, `12s`."""
    for length_s, unit in _UNITS:
        if seconds >= length_s:
            return f"{seconds / length_s:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _row(process: ProcessState, now: float) -> tuple[str, ...]:
    if process.identity is None:
        return (process.name, process.state, str(process.restarts), "-", "-")
    up = _duration(now - process.since)
    return (process.name, process.state, str(process.restarts), str(process.identity.pid), up)


def status_table(state: ClusterState, now: float, database: str) -> str:
    """Return the addresses and a line per process; `now` in seconds since the epoch."""
    rows: list[tuple[str, ...]] = [("PROCESS", "STATE", "RESTARTS", "PID", "UP")]
    rows += [_row(process, now) for process in state.processes]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    secret = state.database_password_file
    told = f"{database}; password: {secret}" if secret else database
    lines = [
        f"phase     {state.phase}",
        f"pages     {state.gateway_url}",
        f"nats      {state.nats_url}  (key: {state.requester_seed_file})",
        f"database  {state.database_url}  ({told})",
        "",
    ]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


def summary(state: ClusterState) -> str:
    """Return the cluster's state in one line."""
    ready = sum(process.state == "ready" for process in state.processes)
    restarts = sum(process.restarts for process in state.processes)
    parts = [f"mlscope {state.phase}", f"{ready} of {len(state.processes)} ready"]
    if restarts:
        parts.append(f"{restarts} restarts")
    if state.phase == "running":
        parts += [state.gateway_url, state.nats_url]
    return " · ".join(parts)


class StatusLine:
    """One line that is rewritten on a terminal, and printed when it changes elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream; on a terminal the line is rewritten."""
        self._stream = stream
        self._rewrites = stream.isatty()
        self._last = ""

    def show(self, state: ClusterState) -> None:
        """Show a new state."""
        line = summary(state)
        if line == self._last:
            return
        self._last = line
        self._stream.write(f"\r\x1b[K{line}" if self._rewrites else f"{line}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        """Begin."""
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
