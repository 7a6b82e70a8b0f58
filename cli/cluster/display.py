"""A cluster's state as people read it, and addresses of its pages that log a browser in."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from cli.cluster.state import ClusterState
from mlscope.logins import TICKET_S, login_address

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def with_login(address: str, token_file: Path | None, life_s: float = TICKET_S) -> str:
    """Return the `address` of a gateway's page with a ticket made of the token in `token_file`.

    It holds for `life_s`. Who may not read the file gets the address as it is.
    """
    try:
        token = token_file.read_text("utf-8").strip() if token_file is not None else ""
    except OSError:
        token = ""
    return login_address(address, token, time.time(), life_s) if token else address


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
