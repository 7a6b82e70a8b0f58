"""`mlscope up`, `down` and `status`: the commands of the local cluster."""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cli.cluster.display import StatusLine, status_table, with_login
from cli.cluster.errors import ClusterError, NotUp
from cli.cluster.servers.database_user import shared_user_caveat
from cli.cluster.servers.postgres import Database
from cli.cluster.state import (
    ClusterState,
    is_locked,
    make_own,
    read_state,
    running_state,
)
from cli.parser import Parsers, add_described
from mlscope.logs import set_up_logging
from mlscope.settings import Settings

UP_WITHIN_S = 120.0
DOWN_WITHIN_S = 60.0
_POLL_S = 0.02
_OK, _FAILED, _NOT_UP = 0, 1, 3


def add_commands(subparsers: Parsers) -> None:
    """Add `up`, `down` and `status`; `run` of each parser maps arguments to an exit code."""
    up_parser = add_described(subparsers, "up", "run the local cluster in the foreground")
    up_parser.add_argument(
        "--detach",
        action="store_true",
        help="start it in the background and return once it is ready",
    )
    up_parser.add_argument(
        "--listen",
        default="",
        metavar="ADDRESS",
        help="let other machines reach the broker and the pages at this IPv4 address, over TLS "
        "(default: MLSCOPE_LISTEN, else this machine only)",
    )
    up_parser.set_defaults(run=up)
    down_parser = add_described(subparsers, "down", "stop the local cluster")
    down_parser.set_defaults(run=down)
    status_parser = add_described(subparsers, "status", "show the local cluster's processes")
    status_parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="output format (default: table)",
    )
    status_parser.set_defaults(run=status)
    for parser in (up_parser, down_parser, status_parser):
        parser.add_argument(
            "--data",
            type=Path,
            metavar="FOLDER",
            help="data folder of the local cluster (default: MLSCOPE_DATA, else .mlscope)",
        )


def _folder(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    """Return the data folder: from the arguments, else from the settings."""
    folder: Path = arguments.data or Settings.read(environ).data_folder
    return folder.resolve()


def up(arguments: argparse.Namespace) -> int:
    """Run the cluster until it is interrupted; with `--detach` return once it is ready."""
    folder = _folder(arguments, os.environ)
    address = arguments.listen or Settings.read(os.environ).listen
    caveat = "" if Database.of(os.environ) else shared_user_caveat()
    if caveat:
        print(f"mlscope up: {caveat}", file=sys.stderr)
    try:
        if arguments.detach:
            argv = [sys.executable, "-P", "-m", "cli.main", "up", "--data", str(folder)]
            argv += ["--listen", address] if address else []
            return up_detached(folder, argv)
        from cli.cluster.supervisor import run_cluster  # deferred: --help must not wait for it

        settings = Settings.read(os.environ)
        set_up_logging("supervisor", settings.log_level, form=settings.log_format)
        with StatusLine(sys.stderr) as line:
            run_cluster(folder, dict(os.environ), os.getpid(), line.show, address=address)
    except ClusterError as error:
        print(f"mlscope up: {error}", file=sys.stderr)
        return _FAILED
    return _OK


def up_detached(folder: Path, argv: Sequence[str]) -> int:
    """Start a supervisor in a session of its own and wait until its cluster runs.

    `folder`: the data folder; `argv`: the supervisor's command line. Returns the exit code.
    """
    log = folder / "logs" / "supervisor.log"
    make_own(folder)
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        # Nobody else may read it: it names people and evaluations.
        log.chmod(0o600)
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(NotUp):
            state = read_state(folder)
            if state.supervisor.pid == process.pid and state.phase == "running":
                print(_shown(state, database_kind(state)))
                # The supervisor outlives us; Popen would warn about a process without exit code.
                process.returncode = _OK
                return _OK
        time.sleep(_POLL_S)
    print(log.read_text("utf-8", "replace")[-4000:], file=sys.stderr, end="")
    if process.poll() is None:
        waited = f"not ready after {UP_WITHIN_S:g} s, and still starting"
        advice = "`mlscope status` shows its processes, `mlscope down` stops it"
        print(f"mlscope up: {waited}: {advice}", file=sys.stderr)
        process.returncode = _FAILED  # as above: it outlives us
    return _FAILED


def down(arguments: argparse.Namespace) -> int:
    """Stop the cluster, wait until all its processes have ended, and print what was stopped."""
    folder = _folder(arguments, os.environ)
    try:
        state = read_state(folder)
    except NotUp:
        print(f"nothing to stop: no local cluster runs from {folder}")
        return _OK
    names = ", ".join(state.alive)
    if state.is_up:
        os.kill(state.supervisor.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_WITHIN_S
    while (state.is_up or is_locked(folder)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if state.is_up:
        print("mlscope down: the supervisor did not end; killing it", file=sys.stderr)
        os.kill(state.supervisor.pid, signal.SIGKILL)
    # Where the kernel does not kill the children of a killed supervisor (Linux does), we do.
    for name, identity in read_state(folder).alive.items():
        fast_shutdown = name == "postgres"
        os.kill(identity.pid, signal.SIGINT if fast_shutdown else signal.SIGKILL)
    print(f"stopped {names}" if names else f"nothing to stop: no local cluster runs from {folder}")
    return _OK


def status(arguments: argparse.Namespace) -> int:
    """Show the processes and addresses: exit code 0 when all are ready, 3 without a cluster."""
    folder = _folder(arguments, os.environ)
    try:
        state = running_state(folder)
    except NotUp as error:
        print(f"mlscope status: {error}", file=sys.stderr)
        return _NOT_UP
    kind = database_kind(state)
    if arguments.output == "json":
        text = json.dumps({**dataclasses.asdict(state), "database": kind}, indent=2)
    else:
        text = _shown(state, kind)
    print(text)
    return _OK if all(process.state == "ready" for process in state.processes) else _FAILED


def _shown(state: ClusterState, kind: str) -> str:
    """Return the state as people read it; the address of the pages logs a browser in, once."""
    pages = with_login(state.gateway_url, Path(state.gateway_token_file))
    return status_table(state, time.time(), kind, pages)


def database_kind(state: ClusterState) -> str:
    """Return the name and version of the cluster's database.

    A database that the environment names comes from there: the state file holds no password of it.
    """
    own = Database(state.database_url, state.database_password_file)
    return (Database.of(os.environ) or own).kind()
