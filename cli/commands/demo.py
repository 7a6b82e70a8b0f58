"""`mlscope demo`: a local cluster, one real evaluation, its result, and nothing left running."""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli import exits
from cli.cluster.errors import NotUp
from cli.cluster.state import ClusterState, running_state
from cli.output import Rows, table_lines
from cli.progress import ProgressLine
from mlscope.client import AsyncClient, AsyncEvaluation, ResultTables
from mlscope.client.asynchronous import request_of
from mlscope.layout import wrapped
from mlscope.settings import Settings
from schemas.request import Evaluate
from schemas.status import EvaluationStatus

_SLOWEST = 10
_NOTE_COLUMNS = 96


def demo(arguments: argparse.Namespace) -> int:
    """Evaluate the shipped classifier on the shipped photographs."""
    folder = Path(arguments.data) if arguments.data else Settings.read(os.environ).data_folder
    signal.signal(signal.SIGTERM, _interrupt)
    with _cluster(folder.resolve(), is_kept=arguments.keep) as state:
        code, status = asyncio.run(_evaluate(state))
    _say_where(folder, status, is_kept=arguments.keep)
    return code


def demo_request() -> Evaluate:
    """Return what the demo asks for."""
    return request_of(
        "efficientnet-lite0",
        {
            "scenarios": [
                {"name": "online", "parameters": {"queries": 45}},
                {"name": "poisson", "parameters": {"rate_hz": 10, "queries": 45}},
                {"name": "batched", "parameters": {"queries": 12}},
            ],
            "batch_sizes": [1, 2, 4, 8],
            "trace_level": "framework",
            "wait_s": 60,
            "labels": {"why": "demo"},
        },
    )


def _interrupt(_: int, __: object) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _cluster(folder: Path, *, is_kept: bool) -> Iterator[ClusterState]:
    """Lend the cluster of a folder: the one that runs, else one that is stopped in the end."""
    running = _running(folder)
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


def _running(folder: Path) -> ClusterState | None:
    try:
        return running_state(folder)
    except NotUp:
        return None


def _mlscope(*arguments: str) -> None:
    """Run another command; what it prints goes to stderr. Raises CalledProcessError."""
    command = [sys.executable, "-m", "cli.main", *arguments]
    # A session of its own: Ctrl-C is ours to handle, in order.
    subprocess.run(command, check=True, stdout=sys.stderr.fileno(), start_new_session=True)


async def _evaluate(state: ClusterState) -> tuple[int, EvaluationStatus]:
    client = AsyncClient(url=state.nats_url, seed_file=state.requester_seed_file)
    async with client:
        evaluation = await client.evaluate(demo_request())
        try:
            status = await _watched(evaluation)
        except asyncio.CancelledError:
            await evaluation.cancel("the demo was interrupted")
            raise
        if status.state != "analyzed":
            print(f"{status.state}: {status.cause}", file=sys.stderr)
            return exits.FAILED, status
        print("\n".join(report(await evaluation.tables())))
    has_failed = any(run.state != "recorded" for run in status.runs)
    return exits.FAILED if has_failed else exits.OK, status


async def _watched(evaluation: AsyncEvaluation) -> EvaluationStatus:
    with ProgressLine(sys.stderr) as line:
        line.note(f"evaluation {evaluation.id}  {evaluation.address}")
        return await evaluation.follow(line.show)


def report(tables: ResultTables) -> list[str]:
    """Return the demo's result in lines."""
    return [
        *_photos(tables),
        *_section(
            tables,
            "latency",
            *("scenario", "batch_size", "level", "count", "trimmed_mean", "median", "p90", "p99"),
        ),
        *_section(
            tables,
            "throughput",
            *("scenario", "batch_size", "level", "samples_per_s"),
            *("samples_per_s_low", "samples_per_s_high"),
        ),
        *_slowest_layers(tables),
        *_section(tables, "levels", "scenario", "batch_size", "part", "kind", "median", "share"),
    ]


def _photos(tables: ResultTables) -> list[str]:
    """Return the five best labels of each photo, from the first session that kept outputs."""
    if "outputs" not in tables:
        return []
    table = tables["outputs"]
    rows = table.rows()
    first = [row for row in rows if row["session"] == rows[0]["session"]]
    lines = ["", "What the model sees, with its probability"]
    for name in dict.fromkeys(row["name"] for row in first):
        lines.append(name)
        lines += [_label(row) for row in first if row["name"] == name]
    return [*lines, table.verdict]


def _label(row: dict[str, Any]) -> str:
    mark = "*" if row["is_correct"] else " "
    return f"  {mark} {row['probability']:7.2%}  {row['label']}"


def _slowest_layers(tables: ResultTables) -> list[str]:
    """Return the slowest layers of the first run that traced any."""
    if "layers" not in tables or not tables["layers"].table.rows:
        return []
    rows = Rows.of_table(tables["layers"].table)
    run = rows.columns.index("run")
    time = rows.columns.index("time")
    of_one = [row for row in rows.rows if row[run] == rows.rows[0][run]]
    slowest = sorted(of_one, key=lambda row: -(row[time] or 0.0))[:_SLOWEST]
    kept = Rows(rows.columns, tuple(slowest), rows.units).kept(
        ("index", "name", "type", "shape", "time", "share")
    )
    return ["", f"The {len(slowest)} slowest layers ({rows.rows[0][run]})", *table_lines(kept)]


def _section(tables: ResultTables, name: str, *columns: str) -> list[str]:
    if name not in tables:
        return []
    rows = Rows.of_table(tables[name].table).kept(columns)
    note = wrapped(rows.note, _NOTE_COLUMNS) if rows.note else []
    return ["", rows.title, *table_lines(rows), *note]


def _say_where(folder: Path, status: EvaluationStatus, *, is_kept: bool) -> None:
    print(f"\nThe evaluation's page: {status.address}")
    if not is_kept:
        print(f"(`mlscope up --data {folder}` serves it again)")
