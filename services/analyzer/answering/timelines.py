"""Answers to `trace`, `trace_window` and `trace_span`: a run's timeline.

The prepared traces of the last runs stay in memory, up to `PREPARED_BYTES`, and the Arrow streams
of the last windows up to `ENCODED_BYTES`, since a stream takes several answers.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.encoding.errors import MalformedMessage
from schemas.message import Message
from schemas.request import Refused
from schemas.trace import ShowSpan, ShowTrace, ShowWindow, SpanDetails, TraceOverview, TraceWindow
from services.analyzer.answering.refusals import answer_or_refusal
from services.analyzer.errors import AnalyzerError, NoSuchSpan
from services.analyzer.storage.traces import TracedRun, TraceReader
from services.analyzer.traces.cache import BoundedCache
from services.analyzer.traces.details import details_of, row_of
from services.analyzer.traces.prepared import Prepared, prepared
from services.analyzer.traces.windows import window_of

_log = logging.getLogger(__name__)

PREPARED_BYTES = 1 << 30
ENCODED_BYTES = 1 << 28
_PART_BYTES = MAX_PAYLOAD_BYTES - 4096
_JSON_PART_BYTES = _PART_BYTES // 4 * 3

T = TypeVar("T", bound=Message)
_Trace = tuple[TracedRun, Prepared]
_Stream = tuple[TraceWindow, bytes]


class Timelines:
    """Answers requests for timelines; one is prepared at a time."""

    def __init__(self, database_url: str) -> None:
        """Use a database, connected at the first request and again after a loss."""
        self._reader = TraceReader(database_url)
        self._turn = asyncio.Lock()
        self._preparing: set[asyncio.Task[None]] = set()
        self._traces: BoundedCache[_Trace] = BoundedCache(PREPARED_BYTES)
        self._streams: BoundedCache[_Stream] = BoundedCache(ENCODED_BYTES)

    async def trace(self, command: ReceivedCommand) -> bytes:
        """Answer `trace` with the lanes of a run."""

        def read() -> TraceOverview:
            request = decode_body(ShowTrace, command.body)
            traced = self._reader.run(request.evaluation, request.run)
            return self._reader.overview(traced, self._prepared(traced))

        return await self._answered(command, read)

    async def window(self, command: ReceivedCommand) -> bytes:
        """Answer `trace_window` with a part of the window's Arrow stream."""
        part_bytes = _JSON_PART_BYTES if is_json(command.body) else _PART_BYTES
        with suppress(MalformedMessage):
            request = decode_body(ShowWindow, command.body)
            if stream := self._streams.get(_key(request)):
                return encode_body(
                    _part(stream, request.offset, part_bytes), json_text=is_json(command.body)
                )

        def read() -> TraceWindow:
            request = decode_body(ShowWindow, command.body)
            return _part(self._stream(request), request.offset, part_bytes)

        return await self._answered(command, read)

    async def span(self, command: ReceivedCommand) -> bytes:
        """Answer `trace_span` with one span's details; too many children are left out."""

        def read() -> SpanDetails:
            request = decode_body(ShowSpan, command.body)
            traced, trace = self._trace(request.evaluation, request.run)
            row = row_of(trace, request.span)
            if row is None:
                raise NoSuchSpan(traced.row["run"], request.span)
            start_ns = int(trace.frame["start"][row])
            stored = self._reader.attributes(traced, start_ns, request.span)
            return details_of(request.evaluation, traced.row["run"], trace, row, stored)

        return await self._answered(command, read)

    def prepare(self, evaluation: str) -> None:
        """Prepare the deepest run of an evaluation in the background: somebody may open it soon."""

        async def work() -> None:
            try:
                async with self._turn:
                    await asyncio.to_thread(self._trace, evaluation, "")
            except AnalyzerError as error:
                _log.info("no timeline of %s prepared: %s", evaluation, error)

        task = asyncio.create_task(work())
        self._preparing.add(task)
        task.add_done_callback(self._preparing.discard)

    def close(self) -> None:
        """Close the connection."""
        for task in self._preparing:
            task.cancel()
        self._reader.close()

    async def _answered(self, command: ReceivedCommand, read: Callable[[], T]) -> bytes:
        async def answer() -> T:
            async with self._turn:
                return await asyncio.to_thread(read)

        json_text = is_json(command.body)
        answered: T | Refused = await answer_or_refusal(answer())
        return encode_body(answered, json_text=json_text)

    def _trace(self, evaluation: str, run: str) -> _Trace:
        """Return a run with its prepared trace, as prepared last or anew."""
        if (trace := self._traces.get((evaluation, run))) is not None:
            return trace
        traced = self._reader.run(evaluation, run)
        self._prepared(traced)
        trace = self._traces.get((evaluation, traced.row["run"]))
        assert trace is not None, "the newest value stays in the cache"
        return trace

    def _prepared(self, traced: TracedRun) -> Prepared:
        """Return the trace of a run, prepared again where spans were stored since."""
        key = (traced.evaluation, traced.row["run"])
        cached = self._traces.get(key)
        if cached is not None and cached[0].version == traced.version:
            return cached[1]
        trace = prepared(self._reader.stored(traced))
        _ = trace.base  # made now, so that no window has to wait for it
        self._traces.put(key, (traced, trace), trace.size_bytes)
        self._streams.drop(traced.evaluation)
        return trace

    def _stream(self, request: ShowWindow) -> _Stream:
        if (stream := self._streams.get(_key(request))) is not None:
            return stream
        traced, trace = self._trace(request.evaluation, request.run)
        window = window_of(trace, request)
        encoded = window.encoded()
        identity = f"{traced.version} {_key(request)} {len(encoded)}"
        head = TraceWindow(
            evaluation=request.evaluation,
            run=traced.row["run"],
            spans=window.spans,
            rows=window.frame.height,
            min_ns=window.min_ns,
            offset=0,
            total_bytes=len(encoded),
            digest=hashlib.sha256(identity.encode()).hexdigest()[:16],
            part=b"",
        )
        self._streams.put(_key(request), (head, encoded), len(encoded))
        return head, encoded


def _key(request: ShowWindow) -> tuple[object, ...]:
    """Return what identifies a stream: the run first, then the window."""
    fields = request.model_dump(exclude={"offset", "evaluation", "run"})
    return (request.evaluation, request.run, *fields.values())


def _part(stream: _Stream, offset: int, most_bytes: int) -> TraceWindow:
    head, encoded = stream
    part = encoded[offset : offset + most_bytes]
    return head.model_copy(update={"offset": offset, "part": part})
