"""Ingest: spans published to committed rows, beside PostgreSQL copying the same rows from a file.

`python -m benchmarks.ingest [--spans 1000000] [--repeats 3] [--database-url URL]`

One publisher, one nats-server, one collector and one PostgreSQL, each a process and all of them
durable; 500 spans to a batch. The floor is `COPY span FROM 'file' (FORMAT BINARY)` by the server
itself, the same rows into the same table, in turns with the collector. `per core` divides by the
CPU time of all four. Wanted: 0.75 of the floor with the table's index. With a URL (of TimescaleDB,
say; a superuser's) it takes a database of its own there, whose server's CPU time is not counted.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import psycopg
import uvloop

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from benchmarks.timing import cpu_s
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import Postgres
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from mlscope.tracing.batches import TRACE_COLUMNS
from schemas.batch import TraceCaptured
from schemas.evaluation import EvaluationRequested, RunStarted
from schemas.message import derived_id
from schemas.request import Evaluate
from services.collector.rows import COPY_HEADER, COPY_TRAILER, LAYOUTS
from services.collector.saving import prepared_of
from services.collector.service import serve
from services.collector.store import migrate

SPANS_A_BATCH = 500
WINDOW = 64
EVALUATION = "ingest"
COLUMNS = ", ".join(LAYOUTS[TraceCaptured].names)
INDEX = "CREATE INDEX span_run ON span (run_key, start_ns)"
ATTRIBUTES = b'{"type": "Conv", "index": 17}'
LEAST_RATIO = 0.75
Context = multiprocessing.get_context("spawn")
Spent = SimpleQueue[float]


@dataclass(frozen=True)
class Case:
    """What is ingested into what: spans with attributes (a share of all), and an index or none."""

    name: str
    has_index: bool
    attributes: float


@dataclass(frozen=True)
class Servers:
    """Where the servers are and where the keys lie."""

    nats_url: str
    address: str
    folder: Path

    def settings(self, name: str) -> Settings:
        """Return the settings of one connection."""
        seed = self.folder / "keys" / f"{name}.nk"
        authority = self.folder / "tls" / "authority.pem"
        return Settings(
            nats_url=self.nats_url,
            nats_seed_file=seed,
            database_url=self.address,
            tls_authority_file=authority if authority.exists() else None,
        )


@dataclass(frozen=True)
class Ingested:
    """One repeat: spans a second, and spans a second of CPU time of all processes."""

    spans_hz: float
    per_core_hz: float


CASES = (
    Case("indexed", has_index=True, attributes=0.0),
    Case("no index", has_index=False, attributes=0.0),
    Case("indexed, attributes on half", has_index=True, attributes=0.5),
)


def batches(spans: int, attributes: float, run: str) -> Iterator[TraceCaptured]:
    """Make batches of spans as an agent would: ascending starts, parents, a few names."""
    count = SPANS_A_BATCH
    noted = tuple(range(int(count * attributes)))
    for sequence in range(spans // count):
        row = np.arange(sequence * count, (sequence + 1) * count)
        columns = {
            "span": row,
            "parent": np.where(row % 10 == 0, -1, row - row % 10),
            "level": np.where(row % 10 == 0, 1, 2),
            "name": row % 10,
            "start_ns": row * 20_000,
            "duration_ns": 15_000 + row % 977,
            "thread": row % 4,
            "query": row // 10,
            "block": row * 0,
        }
        packed: Any = {k: v.astype(TRACE_COLUMNS[k]).tobytes() for k, v in columns.items()}
        yield TraceCaptured(
            evaluation=EVALUATION,
            run=run,
            attempt=1,
            agent="bench",
            sequence=sequence,
            count=count,
            name_ids=tuple(range(10)),
            name_texts=tuple(f"operator {number}" for number in range(10)),
            attribute_rows=noted,
            attribute_texts=(ATTRIBUTES,) * len(noted),
            **packed,
        )


def publish(servers: Servers, spans: int, attributes: float, run: str, spent: Spent) -> None:
    """Publish every batch, `WINDOW` of them under way at a time; say the CPU seconds it took."""

    async def publishing() -> None:
        async with connect(servers.settings("agent"), "agent") as bus:
            turns, began_s = asyncio.Semaphore(WINDOW), time.process_time()

            async def publish_batch(batch: TraceCaptured) -> None:
                async with turns:
                    await bus.publish(batch, id=derived_id(run, "trace", batch.sequence))

            async with asyncio.TaskGroup() as group:
                for batch in batches(spans, attributes, run):
                    group.create_task(publish_batch(batch))
                    async with turns:
                        pass
            spent.put(time.process_time() - began_s)

    uvloop.run(publishing())


def collect(servers: Servers) -> None:
    """Run one collector until killed."""
    settings = servers.settings("collector")

    async def collecting() -> None:
        async with connect(settings, "collector") as bus:
            await serve(bus, settings, asyncio.Event())

    uvloop.run(collecting())


@dataclass(frozen=True)
class World:
    """The servers, a database session, and how to connect as somebody."""

    servers: Servers
    counted: tuple[int, ...]
    session: psycopg.Connection[Any]
    collector: BaseProcess
    #: a folder that the database's server may write to, and its files of rows so far
    server_folder: str
    files: set[str] = field(default_factory=set)

    def clear(self, *, has_index: bool) -> None:
        """Empty the tables, put the index there or not, and leave nothing to flush."""
        self.session.execute("TRUNCATE span, batch, span_name")
        self.session.execute("DROP INDEX IF EXISTS span_run")
        if has_index:
            self.session.execute(INDEX.encode())
        self.session.execute("CHECKPOINT")

    def cpu_s(self) -> float:
        """Return the CPU time that servers and collector took so far."""
        return sum(cpu_s(pid) for pid in (*self.counted, self.collector.pid or 0))


@contextmanager
def open_world(
    database_url: str, broker: Callable[[Path], NatsServer] = NatsServer
) -> Iterator[World]:
    """Run the servers and one collector; the evaluation they are told of is there.

    `broker` makes the broker of a folder.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(new_folder())
        nats = stack.enter_context(broker(folder))
        counted = [nats.pid]
        if database_url:
            address = stack.enter_context(_scratch(database_url))
            server_folder = "/tmp"
        else:
            postgres = stack.enter_context(Postgres(folder))
            counted.append(postgres.pid)
            address = postgres.admin_url()
            server_folder = f"{folder}/postgres/data"
        servers = Servers(nats.url, address, folder)
        print(f"profile: {migrate(address)}")
        asyncio.run(_prepare(servers))
        collector = Context.Process(target=collect, args=(servers,), daemon=True)
        collector.start()
        stack.callback(collector.join)
        stack.callback(collector.kill)
        session = stack.enter_context(psycopg.connect(address, autocommit=True))
        yield World(servers, tuple(counted), session, collector, server_folder)


@contextmanager
def _scratch(database_url: str) -> Iterator[str]:
    """Lend a new database on somebody's server."""
    name = f"mlscope_bench_{os.getpid()}"
    with psycopg.connect(database_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield urlunsplit(urlsplit(database_url)._replace(path=f"/{name}"))
        finally:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def _prepare(servers: Servers) -> None:
    await provision(servers.settings("provisioner"))
    async with connect(servers.settings("scheduler"), "scheduler") as bus:
        request = Evaluate(model="none")
        start = EvaluationRequested(
            evaluation=EVALUATION, request=request, requested_ns=time.time_ns()
        )
        await bus.publish(start, id="start")


async def start_runs(servers: Servers, runs: Iterable[str]) -> None:
    """Say that runs were given to the agent which tells of them: only those are stored."""
    async with connect(servers.settings("scheduler"), "scheduler") as bus:
        for run in runs:
            start = RunStarted(
                evaluation=EVALUATION, run=run, session="s0", attempt=1, agent="bench", started_ns=1
            )
            await bus.publish(start, id=f"start {run}")


def ingest(world: World, case: Case, spans: int, run: str) -> Ingested:
    """Publish spans and wait until they are rows, committed."""
    world.clear(has_index=case.has_index)
    asyncio.run(start_runs(world.servers, [run]))
    spent: Spent = Context.SimpleQueue()
    publisher = Context.Process(
        target=publish, args=(world.servers, spans, case.attributes, run, spent)
    )
    publisher.start()
    _wait_for(world, 1)
    began_s, began_cpu_s, first = time.monotonic(), world.cpu_s(), _stored(world)
    _wait_for(world, spans)
    took_s, spent_cpu_s = time.monotonic() - began_s, world.cpu_s() - began_cpu_s
    spent_cpu_s += spent.get()
    publisher.join()
    return Ingested((spans - first) / took_s, (spans - first) / spent_cpu_s)


def _stored(world: World) -> int:
    row = world.session.execute("SELECT coalesce(sum(count), 0)::int8 FROM batch").fetchone()
    return int(row[0]) if row else 0


def _wait_for(world: World, spans: int) -> None:
    """Wait for rows, asking seldom until most are there: asking takes CPU time too."""
    deadline_s = time.monotonic() + 300
    while (stored := _stored(world)) < spans:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{stored} of {spans} spans")
        time.sleep(0.01 if stored > 0.9 * spans or spans == 1 else 0.1)


def floor_hz(world: World, case: Case, spans: int) -> float:
    """Return the rows a second of a server-side COPY of the same spans, from a file of its own."""
    path = f"{world.server_folder}/mlscope_bench_{os.getpid()}_{case.attributes}.bin"
    world.clear(has_index=case.has_index)
    if path not in world.files:
        statement = f"COPY span ({COLUMNS}) FROM STDIN (FORMAT BINARY)"
        with world.session.cursor().copy(statement.encode()) as copy:
            copy.write(COPY_HEADER)
            for batch in batches(spans, case.attributes, "file"):
                copy.write(prepared_of(batch, 0).rows)
            copy.write(COPY_TRAILER)
        rows = f"SELECT {COLUMNS} FROM span"
        world.session.execute(f"COPY ({rows}) TO '{path}' (FORMAT BINARY)".encode())
        world.files.add(path)
        world.clear(has_index=case.has_index)
    began_s = time.monotonic()
    world.session.execute(f"COPY span ({COLUMNS}) FROM '{path}' (FORMAT BINARY)".encode())
    return spans / (time.monotonic() - began_s)


def compare(world: World, case: Case, spans: int, repeats: int) -> float:
    """Run both in turns, print their medians, and return the collector's share of the floor."""
    floors: list[float] = []
    ours: list[Ingested] = []
    for repeat in range(repeats):
        run = f"{case.name}{repeat}".replace(" ", "_").replace(",", "")
        for is_ours in (True, False) if repeat % 2 else (False, True):
            if is_ours:
                ours.append(ingest(world, case, spans, run))
            else:
                floors.append(floor_hz(world, case, spans))
    floor, hz = median(floors), median(turn.spans_hz for turn in ours)
    per_core = median(turn.per_core_hz for turn in ours)
    print(f"{case.name:28}{floor:14,.0f}{hz:14,.0f}{hz / floor:8.2f}{per_core:14,.0f}", flush=True)
    return hz / floor


def main() -> int:
    """Print each case's figures; fail when the indexed table falls short of what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--database-url", default="", help="measure there, in a new database")
    options = parser.parse_args()
    with open_world(options.database_url) as world:
        version = world.session.execute("SHOW server_version").fetchone()
        print(f"PostgreSQL {version and version[0]}, {options.spans:,} spans, medians, spans/s")
        print(f"{'':28}{'COPY file':>14}{'collector':>14}{'share':>8}{'per core':>14}")
        shares = [compare(world, case, options.spans, options.repeats) for case in CASES]
    claim(
        "rows a second, of COPY",
        shares[0],
        least=LEAST_RATIO,
        unit="x",
        peer="PostgreSQL's COPY of a file",
    )
    print(f"wanted: {LEAST_RATIO} indexed; found {shares[0]:.2f}")
    return int(shares[0] < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
