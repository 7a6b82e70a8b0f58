"""`mlscope demo`: starts a local cluster, runs one evaluation, prints its result, and stops."""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cli import exits
from cli.cluster.display import with_login
from cli.cluster.errors import NotUp
from cli.cluster.state import ClusterState, requester_environ, running_state
from cli.commands.import_bundle import imported, keys_in
from cli.commands.open import page_address
from cli.failures import Misused
from cli.offline.bundle import read
from cli.offline.recordings import RECORDINGS, unpacked
from cli.printing.output import Rows, table_lines
from cli.printing.progress import ProgressLine
from mlscope.client import AsyncClient, ResultTables
from mlscope.client.asynchronous import request_of
from mlscope.client.brief import with_headline_intervals
from mlscope.settings import Settings
from mlscope.texts.layout import wrapped
from schemas.request import Evaluate
from schemas.status import EvaluationStatus

_SLOWEST_LAYERS = 10
_NOTE_WIDTH = 96


def demo(arguments: argparse.Namespace) -> int:
    """Evaluate the shipped classifier on the shipped photographs."""
    folder = Path(arguments.data) if arguments.data else Settings.read(os.environ).data_folder
    folder = folder.resolve()

    def interrupt(_: int, __: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    with _cluster(folder, is_kept=arguments.keep) as state:
        code, status = asyncio.run(_evaluate(state))
        traces = asyncio.run(_traces_of_recordings(state, folder / "keys"))
        if arguments.stay:
            token_file = Path(state.gateway_token_file)
            opened = {title: with_login(page, token_file) for title, page in traces.items()}
            address = with_login(status.address, token_file)
            print("\n".join(_pages(address, opened, ", until Ctrl-C")), flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    signal.pause()
    if not arguments.stay:
        lines = _pages(status.address, traces)
        if not arguments.keep:
            lines += [
                "`mlscope demo --stay` leaves these pages open until Ctrl-C;",
                f"`mlscope up --data {folder}` starts their server again.",
            ]
        print("\n".join(lines))
    return code


def _pages(address: str, traces: Mapping[str, str], until: str = "") -> list[str]:
    """Return lines with the page's `address` and those of the `traces` by title."""
    width = max(map(len, traces), default=0)
    return [
        "",
        f"The evaluation's page{until}: {address}",
        f"Recorded on an NVIDIA H200, down to the GPU's kernels{until}:",
        *(f"  {title:<{width}}  {page}" for title, page in traces.items()),
    ]


async def _traces_of_recordings(state: ClusterState, keys_folder: Path) -> dict[str, str]:
    """Play the shipped recordings back in a cluster; return their pages by title.

    `keys_folder` has the cluster's keys. A recording that can't be played back has no page.
    """
    settings = Settings.read({**os.environ, **requester_environ(state)})
    keys = keys_in(settings, str(keys_folder))
    pages = {}
    with TemporaryDirectory(prefix="mlscope-") as unpacked_in:
        for name, title in RECORDINGS.items():
            bundle = read(unpacked(name, Path(unpacked_in)))
            try:
                evaluation, status = await imported(bundle, keys, f"import {bundle.evaluation}")
            except Misused as error:
                print(f"{title} was not imported: {error}", file=sys.stderr)
                continue
            if status.state != "analyzed":
                print(f"{title} was not imported: it is {status.state}", file=sys.stderr)
                continue
            pages[title] = page_address(evaluation.address, is_trace=True)
    return pages


def demo_request() -> Evaluate:
    """Return the demo's request."""
    return request_of(
        "efficientnet-lite0",
        {
            "scenarios": [
                {"name": "online", "parameters": {"queries": 15}},
                {"name": "batched", "parameters": {"queries": 4}},
            ],
            # No open loop: the 662 queries that certify its p99 at two levels take too long.
            # Three blocks or more of each level in turn, so that an overhead has an interval.
            "blocks": {"least": 3, "most": 12, "interval": 0.1, "budget_s": 3, "of": "result"},
            "batch_sizes": [1, 2, 4, 8],
            "trace_level": "framework",
            "wait_s": 60,
            "labels": {"why": "demo"},
        },
    )


@contextlib.contextmanager
def _cluster(folder: Path, *, is_kept: bool) -> Iterator[ClusterState]:
    """Yield the running cluster of a folder, else start one and stop it at the end."""
    try:
        running = running_state(folder)
    except NotUp:
        running = None
    if running is not None:
        yield running
        return
    print(f"starting a local cluster in {folder}", file=sys.stderr)
    try:
        _mlscope("up", "--detach", "--data", str(folder))
        yield running_state(folder)
    except BaseException:
        _mlscope("down", "--data", str(folder))
        raise
    if not is_kept:
        print("stopping the cluster", file=sys.stderr)
        _mlscope("down", "--data", str(folder))


def _mlscope(*arguments: str) -> None:
    """Run another command with its output on stderr. Raises CalledProcessError."""
    command = [sys.executable, "-P", "-m", "cli.main", *arguments]
    # In a session of its own, so that Ctrl-C reaches only us and we stop things in order.
    subprocess.run(command, check=True, stdout=sys.stderr.fileno(), start_new_session=True)


async def _evaluate(state: ClusterState) -> tuple[int, EvaluationStatus]:
    client = AsyncClient(url=state.nats_url, seed_file=state.requester_seed_file)
    async with client:
        evaluation = await client.evaluate(demo_request())
        try:
            with ProgressLine(sys.stderr) as line:
                address = with_login(evaluation.address, Path(state.gateway_token_file))
                line.note(f"evaluation {evaluation.id}  {address}")
                status = await evaluation.follow(line.show)
        except asyncio.CancelledError:
            await evaluation.cancel("the demo was interrupted")
            raise
        if status.state != "analyzed":
            print(f"{status.state}: {status.cause}", file=sys.stderr)
            return exits.FAILED, status
        print("\n".join(report(await evaluation.tables())))
    has_failed = any(run.state != "recorded" for run in status.runs)
    return exits.FAILED if has_failed else exits.OK, status


def report(tables: ResultTables) -> list[str]:
    """Return the demo's result in lines."""

    def section(name: str, *columns: str, level: str = "") -> list[str]:
        if name not in tables:
            return []
        rows = Rows.of_table(with_headline_intervals(tables[name].table))
        rows = (rows.where("level", level) if level else rows).select(columns)
        note = wrapped(rows.note, _NOTE_WIDTH) if rows.note else []
        return ["", rows.title, *table_lines(rows), *note]

    group = ("scenario", "batch_size")
    return [
        *_photo_lines(tables),
        # Deeper levels are slower by their tracing, which the last table shows.
        *section("latency", *group, "level", "count", "trimmed_mean", "p90", level="model"),
        *section("throughput", *group, "level", "samples_per_s", level="model"),
        *_slowest_layers(tables),
        *section("levels", *group, "part", "share", "result", "doubt"),
    ]


def _photo_lines(tables: ResultTables) -> list[str]:
    """Return the five best labels of each photo, from the first session with outputs."""
    if "outputs" not in tables:
        return []
    table = tables["outputs"]
    rows = table.rows()
    first_session = [row for row in rows if row["session"] == rows[0]["session"]]
    lines = ["", "What the model sees, with its probability"]
    for name in dict.fromkeys(row["name"] for row in first_session):
        lines.append(name)
        lines += [
            f"  {'*' if row['is_correct'] else ' '} {row['probability']:7.2%}  {row['label']}"
            for row in first_session
            if row["name"] == name
        ]
    return [*lines, table.verdict]


def _slowest_layers(tables: ResultTables) -> list[str]:
    """Return the slowest layers of the first run with layers."""
    if "layers" not in tables or not tables["layers"].table.rows:
        return []
    rows = Rows.of_table(tables["layers"].table)
    run_column = rows.columns.index("run")
    time_column = rows.columns.index("time")
    first_run = rows.rows[0][run_column]
    layers = [row for row in rows.rows if row[run_column] == first_run]
    slowest = sorted(layers, key=lambda row: -(row[time_column] or 0.0))[:_SLOWEST_LAYERS]
    selected = Rows(rows.columns, tuple(slowest), rows.units).select(
        ("index", "name", "type", "shape", "time", "share")
    )
    return ["", f"The {len(slowest)} slowest layers ({first_run})", *table_lines(selected)]
