"""`mlscope up`, `down` and `status`: the local cluster as commands."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.cluster.database import Database
from cli.cluster.errors import ClusterError, NotUp
from cli.cluster.identity import is_alive
from cli.cluster.shown import StatusLine, status_table
from cli.cluster.state import ClusterState, is_locked, read_state, running_state
from mlscope.logs import set_up_logging
from mlscope.settings import Settings

UP_WITHIN_S = 120.0
DOWN_WITHIN_S = 60.0
_POLL_S = 0.02
_DONE, _FAILED, _NOT_UP = 0, 1, 3


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `up`, `down` and `status`; each parser's `run` takes the arguments, returns the code."""
    up_parser = subparsers.add_parser("up", help="run the local cluster in the foreground")
    up_parser.add_argument("--detach", action="store_true", help="return once it is ready")
    up_parser.set_defaults(run=up)
    down_parser = subparsers.add_parser("down", help="stop the local cluster")
    down_parser.set_defaults(run=down)
    status_parser = subparsers.add_parser("status", help="show the local cluster's processes")
    status_parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="format (table)"
    )
    status_parser.set_defaults(run=status)
    for parser in (up_parser, down_parser, status_parser):
        parser.add_argument("--data", type=Path, help="the data folder (MLSCOPE_DATA, .mlscope)")


def _folder(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    """Return the data folder that the arguments, else the settings name."""
    folder: Path = arguments.data or Settings.read(environ).data_folder
    return folder.resolve()


def up(arguments: argparse.Namespace) -> int:
    """Run the cluster until it is interrupted; detached: until it is ready."""
    folder = _folder(arguments, os.environ)
    try:
        if arguments.detach:
            argv = [sys.executable, "-m", "cli.main", "up", "--data", str(folder)]
            return up_detached(folder, argv)
        return _up_here(folder)
    except ClusterError as error:
        print(f"mlscope up: {error}", file=sys.stderr)
        return _FAILED


def _up_here(folder: Path) -> int:
    from cli.cluster.supervisor import run_cluster  # deferred: --help must not wait for it

    set_up_logging("supervisor", Settings.read(os.environ).log_level)
    with StatusLine(sys.stderr) as line:
        run_cluster(folder, dict(os.environ), os.getpid(), line.show)
    return _DONE


def up_detached(folder: Path, argv: Sequence[str]) -> int:
    """Start a supervisor in a session of its own and wait until its cluster runs."""
    log = folder / "logs" / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        state = _state_of(folder, process.pid)
        if state is not None and state.phase == "running":
            print(status_table(state, time.time(), database_kind(state)))
            # It is meant to outlive us, which Popen would otherwise warn of.
            process.returncode = _DONE
            return _DONE
        time.sleep(_POLL_S)
    print(log.read_text("utf-8", "replace")[-4000:], file=sys.stderr, end="")
    return _FAILED


def _state_of(folder: Path, supervisor_pid: int) -> ClusterState | None:
    """Return what this very supervisor wrote, None while it has not."""
    try:
        state = read_state(folder)
    except NotUp:
        return None
    return state if state.supervisor.pid == supervisor_pid else None


def down(arguments: argparse.Namespace) -> int:
    """Stop the cluster and wait until nothing of it is left."""
    folder = _folder(arguments, os.environ)
    try:
        state = read_state(folder)
    except NotUp:
        return _DONE
    if state.is_up:
        os.kill(state.supervisor.pid, 15)
    deadline = time.monotonic() + DOWN_WITHIN_S
    while (state.is_up or is_locked(folder)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if state.is_up:
        print("mlscope down: the supervisor did not end; killing it", file=sys.stderr)
        os.kill(state.supervisor.pid, 9)
    _end_orphans(read_state(folder))
    return _DONE


def _end_orphans(state: ClusterState) -> None:
    """Kill what a supervisor that was killed left: on Linux the kernel has done so."""
    for process in state.processes:
        if process.identity is not None and is_alive(process.identity):
            os.kill(process.identity.pid, 2 if process.name == "postgres" else 9)


def status(arguments: argparse.Namespace) -> int:
    """Show every process and address; the code is 0 when all are ready, 3 when it is not up."""
    folder = _folder(arguments, os.environ)
    try:
        state = running_state(folder)
    except NotUp as error:
        print(f"mlscope status: {error}", file=sys.stderr)
        return _NOT_UP
    kind = database_kind(state)
    if arguments.output == "json":
        print(json.dumps({**dataclasses.asdict(state), "database": kind}, indent=2))
    else:
        print(status_table(state, time.time(), kind))
    return _DONE if all(one.state == "ready" for one in state.processes) else _FAILED


def database_kind(state: ClusterState) -> str:
    """Return which database answers: the state file holds no password of a foreign one."""
    kept = Database(state.database_url, state.database_password_file)
    return (Database.of(os.environ) or kept).kind()
