"""The two processes that issue a remote load: one sends on time, one reads the answers.

Apart because a reader in the sender's process would take the interpreter from it just when a query
is due. Each has one blocking connection of its own. What to do comes as msgpack on standard input,
after its length (4 bytes, little-endian); so does the sender's start, 8 bytes: the origin on
CLOCK_MONOTONIC. A closed standard input ends either. They answer `ready`, then the reader a
msgpack map of columns every quarter of a second that brought answers, and both an empty map when
they are through, or one with an `error`. The sender's stamps are in memory shared with the parent:
a pipe would take time.
"""

import mmap
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import msgpack
import numpy as np

from mlscope.load.issuing import raise_priority
from mlscope.load.pacing import calibrate_margin_ns, pace
from services.scheduler.dialing import CHUNK_BYTES, dial
from services.scheduler.issued import ANSWERED, FAILED
from services.scheduler.wire import PING, PONG, Frame, Parser, publication, subscription

READY = b"ready"
_TELL_S = 0.25
_LONGEST_NUMBER = 12


def main() -> None:
    """Be the sender or the reader, as the first argument says."""
    spec = msgpack.unpackb(_exactly(struct.unpack("<I", _exactly(4))[0]))
    try:
        send(spec) if sys.argv[1] == "send" else read(spec)
    except (OSError, EOFError) as error:
        _say(msgpack.packb({"error": str(error) or type(error).__name__}))
    else:
        _say(msgpack.packb({}))


def send(spec: dict[str, Any]) -> None:
    """Publish each query at its due time.

    Puts stamps of CLOCK_MONOTONIC, taken after the socket's write returned, into the memory behind
    the descriptor `stamps_fd`, int64 [queries].
    """
    connection, parser = dial(spec["url"], spec["seed"], "issuer")
    due_ns = np.frombuffer(spec["due_ns"], "<i8").astype(np.int64)
    lines = _publications(spec, len(due_ns))
    stamps = memoryview(mmap.mmap(spec["stamps_fd"], 8 * len(due_ns))).cast("q")
    writing, over = threading.Lock(), threading.Event()
    threading.Thread(
        target=_answer_pings, args=(connection, parser, writing, over), daemon=True
    ).start()
    raise_priority()
    margin_ns = calibrate_margin_ns()
    _say(READY)
    origin_ns = struct.unpack("<q", _exactly(8))[0]
    threading.Thread(target=_end_with_input, args=(over,), daemon=True).start()

    def issue(query: int) -> None:
        with writing:
            connection.sendall(lines[query])
        stamps[query] = time.monotonic_ns()

    pace(due_ns, issue, origin_ns, margin_ns, stop=over.is_set)


def _publications(spec: dict[str, Any], queries: int) -> list[bytes]:
    """Build every query's bytes before the clock starts."""
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


def _answer_pings(
    connection: socket.socket, parser: Parser, writing: threading.Lock, over: threading.Event
) -> None:
    """Keep the server content; a broken connection ends the load."""
    try:
        while received := _received(connection, writing):
            kinds = {frame.kind for frame in parser.feed(received)}
            if "ERR" in kinds:
                return
            if "PING" in kinds:
                with writing:
                    connection.sendall(PONG)
    except OSError:
        return
    finally:
        over.set()


def _received(connection: socket.socket, writing: threading.Lock) -> bytes:
    """Wait for bytes without holding up a query: a TLS connection may not be read while written."""
    select.select([connection.fileno()], [], [])
    with writing:
        return connection.recv(CHUNK_BYTES)


def _end_with_input(over: threading.Event) -> None:
    """Stop when the parent dies or wants no more: its end of the pipe closes."""
    while os.read(0, 64):
        pass
    over.set()


def read(spec: dict[str, Any]) -> None:
    """Stamp and tell answers until all are there, or the standard input closes."""
    connection, parser = dial(spec["url"], spec["seed"], "issuer-reader")
    connection.sendall(subscription(f"{spec['inbox']}.*") + PING)
    answers = Answers(spec["queries"])
    while answers.left:
        readable, _, _ = select.select([connection.fileno(), 0], [], [], _TELL_S)
        if 0 in readable and not os.read(0, 64):
            break
        if connection.fileno() in readable:
            received = connection.recv(CHUNK_BYTES)
            now_ns = time.monotonic_ns()
            if not received:
                break
            _take(parser.feed(received), connection, answers, now_ns)
        answers.tell_at(time.monotonic())
    answers.tell()


def _take(
    frames: Iterable[Frame], connection: socket.socket, answers: "Answers", now_ns: int
) -> None:
    for frame in frames:
        if frame.kind == "PING":
            connection.sendall(PONG)
        elif frame.kind == "PONG":
            _say(READY)
        elif frame.kind == "MSG":
            answers.add(frame.subject, frame.body, now_ns)


class Answers:
    """Answers that came and were not told yet; each query of the load counts once."""

    def __init__(self, queries: int) -> None:
        """Wait for answers to queries 0 to `queries` - 1."""
        self.rows: list[Row] = []
        self.left = queries
        self._is_answered = bytearray(queries)
        self._errors: dict[int, str] = {}
        self._failed: dict[int, int] = {}
        self._next_s = time.monotonic() + _TELL_S

    def add(self, subject: str, body: bytes, now_ns: int) -> None:
        """Take in an answer; a second one, or one to no query of the load, changes nothing."""
        query = self._query_of(subject)
        if query is None or self._is_answered[query]:
            return
        self._is_answered[query] = True
        self.left -= 1
        row, error, failed_samples = _answer(query, body, now_ns)
        self.rows.append(row)
        if error:
            self._errors[query] = error
        if failed_samples:
            self._failed[query] = failed_samples

    def _query_of(self, subject: str) -> int | None:
        number = subject.rpartition(".")[2]
        is_number = number.isascii() and number.isdecimal() and len(number) < _LONGEST_NUMBER
        return int(number) if is_number and int(number) < len(self._is_answered) else None

    def tell_at(self, now_s: float) -> None:
        """Tell what there is, unless the last time was just now."""
        if self.rows and now_s >= self._next_s:
            self._next_s = now_s + _TELL_S
            self.tell()

    def tell(self) -> None:
        """Write what there is to the standard output and forget it."""
        if self.rows:
            _say(msgpack.packb(_columns(self.rows, self._errors, self._failed)))
            self.rows, self._errors, self._failed = [], {}, {}


Row = tuple[int, int, int, int]
"""query, ended_ns, service_ns, status."""


def _answer(query: int, body: bytes, now_ns: int) -> tuple[Row, str, int]:
    """Return an answer's row, its error, and how many samples failed where others did not.

    An answer nobody can read is a failed query.
    """
    try:
        answer = msgpack.unpackb(body)
        status, service_ns = int(answer["status"]), int(answer["service_ns"])
        if status not in (ANSWERED, FAILED) or not -1 <= service_ns < 2**63:
            raise ValueError(f"status {status}, service_ns {service_ns}")
        failed_samples = int(answer.get("failed", 0)) if status == ANSWERED else 0
        if not 0 <= failed_samples < 2**31:
            raise ValueError(f"failed {failed_samples}")
        is_bad = status != ANSWERED or failed_samples > 0
        error = str(answer.get("error", "")) if is_bad else ""
        return (query, now_ns, service_ns, status), error, failed_samples
    except (ArithmeticError, ValueError, LookupError, TypeError, msgpack.UnpackException) as error:
        return (query, now_ns, -1, FAILED), f"unreadable answer: {error}", 0


def _columns(answers: list[Row], errors: dict[int, str], failed: dict[int, int]) -> dict[str, Any]:
    """Return columns, one row an answer: int32 `query`, int64 times, int8 `status`.

    By query `errors` and, of those answered in part, how many samples `failed`.
    """
    rows = np.array(answers, np.int64).reshape(-1, 4)
    return {
        "query": rows[:, 0].astype("<i4").tobytes(),
        "ended_ns": rows[:, 1].astype("<i8").tobytes(),
        "service_ns": rows[:, 2].astype("<i8").tobytes(),
        "status": rows[:, 3].astype("<i1").tobytes(),
        "errors": errors,
        "failed": failed,
    }


def _exactly(size: int) -> bytes:
    """Read `size` bytes of standard input. Raises EOFError."""
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _say(message: bytes) -> None:
    """Write a message to standard output after its length."""
    data = struct.pack("<I", len(message)) + message
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
