"""The two processes that issue a remote load: one sends on time, one reads the answers.

They are two, because a reader in the sender's process would hold the interpreter just when a query
is due. Each has one blocking connection of its own.

Standard input begins with the length of a spec (4 bytes, little-endian) and the spec as msgpack.
Then the sender gets its start: 8 bytes, the origin on CLOCK_MONOTONIC. A closed standard input ends
either process. Standard output holds messages, each after its length: `ready`, then of the reader a
map of columns for the first answer and for every quarter of a second with answers, and at the end a
map, empty or with an `error`; the sender's says whether it ended at the limit. This is the number
of queries that may be issued, which the parent changes as answers come. It is in memory that both
share, with the sender's stamps: a pipe would take time.
"""

import mmap
import os
import select
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from mlscope.bus.nats import (
    CHUNK_BYTES,
    PING,
    PONG,
    BrokerSocket,
    Parser,
    dial,
    publication,
    subscription,
)
from mlscope.load.issuing import raise_priority
from mlscope.load.pacing import calibrate_margin_ns, pace
from services.scheduler.remote_load.early_writes import EarlyWrites
from services.scheduler.remote_load.query_answers import REPORT_S, QueryAnswers
from services.scheduler.remote_load.standard_streams import read_exactly, write_message

READY = b"ready"
AT_LIMIT = "at_limit"
"""The key in the sender's last message: whether it ended because no further query may be issued."""


def main() -> None:
    """Be the sender or the reader, as the first argument says."""
    spec = msgpack.unpackb(read_exactly(struct.unpack("<I", read_exactly(4))[0]))
    end: dict[str, Any] = {}
    try:
        if sys.argv[1] == "send":
            end[AT_LIMIT] = send(spec)
        else:
            read(spec)
    except (OSError, EOFError) as error:
        write_message(msgpack.packb({"error": str(error) or type(error).__name__}))
    else:
        write_message(msgpack.packb(end))


def send(spec: dict[str, Any]) -> bool:
    """Publish each query at its due time; return whether it ended at the limit.

    The memory behind the descriptor `shared_fd` of the `spec` is int64 [1 + queries]: the limit,
    then stamps of CLOCK_MONOTONIC, taken after the socket's write returned.
    """
    connection, parser = _dial(spec, "issuer")
    due_ns = np.frombuffer(spec["due_ns"], "<i8").astype(np.int64)
    writes = EarlyWrites(connection, _publications(spec, len(due_ns)), due_ns)
    shared = memoryview(mmap.mmap(spec["shared_fd"], 8 * (1 + len(due_ns)))).cast("q")
    stop = threading.Event()
    threading.Thread(target=_answer_pings, args=(writes, parser, stop), daemon=True).start()
    raise_priority()
    margin_ns = calibrate_margin_ns()
    write_message(READY)
    origin_ns = struct.unpack("<q", read_exactly(8))[0]
    threading.Thread(target=_stop_with_input, args=(stop,), daemon=True).start()

    issued = 0

    def issue(query: int) -> None:
        nonlocal issued
        writes.write()
        issued = query + 1
        shared[issued] = time.monotonic_ns()

    def is_over() -> bool:
        writes.prepare(time.monotonic_ns() - origin_ns)
        return stop.is_set() or issued >= shared[0]

    pace(due_ns, issue, origin_ns, margin_ns, stop=is_over)
    return not stop.is_set() and issued < len(due_ns)


def _dial(spec: dict[str, Any], name: str) -> tuple[BrokerSocket, Parser]:
    """Connect to the broker of `spec` as `name`."""
    authority = Path(spec["authority_file"]) if spec["authority_file"] else None
    broker_uid: int | None = spec["broker_uid"]
    return dial(spec["url"], spec["seed"], name, authority, broker_uid=broker_uid)


def _publications(spec: dict[str, Any], queries: int) -> list[bytes]:
    """Return every query's bytes, made before the clock starts."""
    samples = np.frombuffer(spec["samples"], "<i4").reshape(queries, -1).astype("<i4")
    common = {name: spec[name] for name in ("evaluation", "run", "attempt", "block")}
    return [
        publication(
            spec["subject"],
            f"{spec['inbox']}.{query}",
            msgpack.packb({**common, "query": query, "samples": samples[query].tobytes()}),
        )
        for query in range(queries)
    ]


def _answer_pings(writes: EarlyWrites, parser: Parser, stop: threading.Event) -> None:
    """Answer the server's pings; a broken connection ends the load."""
    try:
        while received := writes.connection.raw.recv(CHUNK_BYTES):
            kinds = {frame.kind for frame in parser.feed(writes.decrypt(received))}
            if "ERR" in kinds:
                return
            if "PING" in kinds:
                writes.answer_ping()
    except OSError:
        return
    finally:
        stop.set()


def _stop_with_input(stop: threading.Event) -> None:
    """Stop when the parent closes its end of the pipe, or dies."""
    while os.read(0, 64):
        pass
    stop.set()


def read(spec: dict[str, Any]) -> None:
    """Stamp and report answers until all are there, or the standard input closes."""
    connection, parser = _dial(spec, "issuer-reader")
    connection.sendall(subscription(f"{spec['inbox']}.*") + PING)
    answers = QueryAnswers(spec["queries"])
    while answers.missing:
        readable, _, _ = select.select([connection.fileno(), 0], [], [], REPORT_S)
        if 0 in readable and not os.read(0, 64):
            break
        if connection.fileno() in readable and not _take_answers(connection, parser, answers):
            break
        answers.report_if_due(time.monotonic())
    answers.report()


def _take_answers(connection: BrokerSocket, parser: Parser, answers: "QueryAnswers") -> bool:
    """Take what a readable `connection` has, frame by frame; False when the server closed it.

    `parser` keeps the beginning of a frame that is not whole yet; `answers` gets each message.
    """
    received = connection.recv()
    now_ns = time.monotonic_ns()
    for frame in parser.feed(received) if received else ():
        match frame.kind:
            case "PING":
                connection.sendall(PONG)
            case "PONG":
                write_message(READY)
            case "MSG":
                answers.add(frame.subject, frame.body, now_ns)
    return bool(received)


if __name__ == "__main__":
    main()
