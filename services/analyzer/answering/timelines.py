"""Answers to `trace`, `trace_window` and `trace_span`: a run's timeline.

The prepared traces of the last `PREPARED_RUNS` stay in memory, up to `PREPARED_BYTES`, and the
Arrow streams of the last `ENCODED_WINDOWS` up to `ENCODED_BYTES`, since a stream takes several
answers.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from mlscope.bus.records import ReceivedCommand
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.message import Message
from schemas.request import Refused
from schemas.trace import ShowSpan, ShowTrace, ShowWindow, SpanDetails, TraceOverview, TraceWindow
from services.analyzer.answering.refusals import answer_or_refusal
from services.analyzer.errors import AnalyzerError, NoSuchSpan
from services.analyzer.storage.timelines import KeptTimelines
from services.analyzer.storage.traces import TracedRun, TraceReader
from services.analyzer.traces.cache import BoundedCache
from services.analyzer.traces.details import details_of, row_of
from services.analyzer.traces.prepared import prepared
from services.analyzer.traces.resolutions import OUTLINED_FROM, Prepared
from services.analyzer.traces.windows import window_of

_log = logging.getLogger(__name__)

PREPARED_RUNS, PREPARED_BYTES = 64, 1 << 30
ENCODED_WINDOWS, ENCODED_BYTES = 1024, 1 << 28
_PART_BYTES = MAX_PAYLOAD_BYTES - 4096
_JSON_PART_BYTES = _PART_BYTES // 4 * 3

_READ_PART = 0.8
"""The part of preparing a run that reading its spans takes, about."""
_LOAD_AFTER_S = 1.0

T = TypeVar("T", bound=Message)
_Trace = tuple[TracedRun, Prepared]
_Stream = tuple[TraceWindow, bytes]


class Timelines:
    """Answers requests for timelines; one is prepared at a time.

    A long run's timeline is kept in the database once it is made. Its outline, which is read
    first, answers until the spans are read too.
    """

    def __init__(self, database_url: str) -> None:
        """Use a database, connected at the first request and again after a loss."""
        self._reader = TraceReader(database_url)
        self._bulk_reader = TraceReader(database_url)
        self._outlines = KeptTimelines(database_url)
        self._bulk = KeptTimelines(database_url)
        self._turn = asyncio.Lock()
        self._bulk_turn = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._shares: dict[tuple[str, str], float] = {}
        self._traces: BoundedCache[_Trace] = BoundedCache(PREPARED_BYTES, PREPARED_RUNS)
        self._streams: BoundedCache[_Stream] = BoundedCache(ENCODED_BYTES, ENCODED_WINDOWS)

    async def trace(self, command: ReceivedCommand) -> bytes:
        """Answer `trace` with the lanes of a run, or how far they are prepared."""

        async def answer() -> TraceOverview:
            request = decode_body(ShowTrace, command.body)
            traced = await self._run(request.evaluation, request.run)
            trace = await self._outlined(traced)
            if trace is None and not request.waits and traced.row["stored"] >= OUTLINED_FROM:
                if _name(traced) not in self._shares:
                    self._shares[_name(traced)] = 0.0
                    self._start(self._whole_trace(traced))
                return self._reader.waiting(traced, self._shares[_name(traced)])
            if trace is None:
                trace = await self._whole_trace(traced)
            elif not trace.is_whole:
                self._start(self._whole_trace(traced, _LOAD_AFTER_S))
            return await asyncio.to_thread(self._reader.overview, traced, trace)

        return await _encoded(command, answer())

    async def window(self, command: ReceivedCommand) -> bytes:
        """Answer `trace_window` with a part of the window's Arrow stream."""
        part_bytes = _JSON_PART_BYTES if is_json(command.body) else _PART_BYTES

        async def answer() -> TraceWindow:
            request = decode_body(ShowWindow, command.body)
            stream = self._streams.get(_key(request))
            if stream is None:
                traced = await self._named(request.evaluation, request.run)
                trace = (
                    self._trace_in_memory(traced)
                    or await self._outlined(traced)
                    or await self._whole_trace(traced)
                )
                async with self._turn:
                    stream = await asyncio.to_thread(_stream_of, traced, trace, request)
                if stream is None:
                    trace = await self._whole_trace(traced)
                    async with self._turn:
                        stream = await asyncio.to_thread(_stream_of, traced, trace, request)
                assert stream is not None, "a whole trace has every window"
                self._streams.put(_key(request), stream, len(stream[1]))
            head, encoded = stream
            part = encoded[request.offset : request.offset + part_bytes]
            return head.model_copy(update={"offset": request.offset, "part": part})

        return await _encoded(command, answer())

    async def span(self, command: ReceivedCommand) -> bytes:
        """Answer `trace_span` with one span's details; too many children are left out."""

        async def answer() -> SpanDetails:
            request = decode_body(ShowSpan, command.body)
            traced = await self._named(request.evaluation, request.run)
            trace = await self._whole_trace(traced)

            def read() -> SpanDetails:
                row = row_of(trace, request.span)
                if row is None:
                    raise NoSuchSpan(traced.row["run"], request.span)
                start_ns = int(trace.frame["start"][row])
                stored = self._reader.attributes(traced, start_ns, request.span)
                return details_of(request.evaluation, traced.row["run"], trace, row, stored)

            async with self._turn:
                return await asyncio.to_thread(read)

        return await _encoded(command, answer())

    def prepare(self, evaluation: str) -> None:
        """Prepare an evaluation in the background: somebody may open it soon.

        Long runs are kept in the database, and the deepest run of all in memory.
        """

        async def work() -> None:
            runs = await asyncio.to_thread(self._bulk_reader.runs, evaluation)
            runs.sort(key=lambda traced: int(traced.row["level"]))
            for traced in runs:
                is_long = traced.row["stored"] >= OUTLINED_FROM
                is_kept = is_long and await asyncio.to_thread(self._bulk.has, traced)
                if traced is runs[-1] or (is_long and not is_kept):
                    await self._whole_trace(traced)

        self._start(work())

    def close(self) -> None:
        """Close the connections."""
        for task in self._background:
            task.cancel()
        for connection in (self._reader, self._bulk_reader, self._outlines, self._bulk):
            connection.close()

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        """Do some work in the background."""

        async def logged() -> None:
            try:
                await work
            except AnalyzerError as error:
                _log.info("no timeline prepared: %s", error)

        task = asyncio.create_task(logged())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _run(self, evaluation: str, run: str) -> TracedRun:
        return await asyncio.to_thread(self._reader.run, evaluation, run)

    async def _named(self, evaluation: str, run: str) -> TracedRun:
        """Return a run as it was when it was prepared last, else as it is now."""
        cached = self._traces.get((evaluation, run))
        return cached[0] if cached is not None else await self._run(evaluation, run)

    def _trace_in_memory(self, traced: TracedRun) -> Prepared | None:
        """Return the trace in memory, None where spans were stored since."""
        cached = self._traces.get(_name(traced))
        return cached[1] if cached is not None and cached[0].version == traced.version else None

    def _hold(self, traced: TracedRun, trace: Prepared) -> None:
        cached = self._traces.get(_name(traced))
        if cached is None or cached[0].version != traced.version:
            self._streams.drop(traced.evaluation)
        self._traces.put(_name(traced), (traced, trace), trace.size_bytes)

    async def _outlined(self, traced: TracedRun) -> Prepared | None:
        """Return a trace of at least tiles, None where it must be prepared."""
        if (stored := self._trace_in_memory(traced)) is not None:
            return stored
        outline = await asyncio.to_thread(self._outlines.outline, traced)
        if outline is not None and self._trace_in_memory(traced) is None:
            self._hold(traced, outline)
        return self._trace_in_memory(traced)

    async def _whole_trace(self, traced: TracedRun, after_s: float = 0.0) -> Prepared:
        """Return the whole trace of a run: from memory, as it is kept, or made anew."""
        await asyncio.sleep(after_s)
        async with self._bulk_turn:
            stored = self._trace_in_memory(traced)
            if stored is not None and stored.is_whole:
                return stored
            try:
                trace = await asyncio.to_thread(self._bulk.whole_trace, traced)
                is_new = trace is None
                if trace is None:
                    trace = await asyncio.to_thread(self._trace_of_spans, traced)
                self._hold(traced, trace)
            finally:
                self._shares.pop(_name(traced), None)
        if is_new and trace.spans >= OUTLINED_FROM:
            self._start(asyncio.to_thread(self._bulk.keep, traced, trace))
        return trace

    def _trace_of_spans(self, traced: TracedRun) -> Prepared:
        """Return the trace of a run made of its spans; note how far that is."""
        all_spans = max(traced.row["stored"], 1)

        def note(spans: int) -> None:
            self._shares[_name(traced)] = _READ_PART * min(spans / all_spans, 1.0)

        return prepared(self._bulk_reader.stored(traced, note))


async def _encoded(command: ReceivedCommand, answer: Awaitable[T]) -> bytes:
    answered: T | Refused = await answer_or_refusal(answer)
    return encode_body(answered, json_text=is_json(command.body))


def _stream_of(traced: TracedRun, trace: Prepared, request: ShowWindow) -> _Stream | None:
    """Return a window as Arrow; None where the trace is not whole and would have to be."""
    window = window_of(trace, request)
    if window is None:
        return None
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
    return head, encoded


def _name(traced: TracedRun) -> tuple[str, str]:
    return traced.evaluation, traced.row["run"]


def _key(request: ShowWindow) -> tuple[object, ...]:
    """Return what identifies a stream: the run first, then the window."""
    fields = request.model_dump(exclude={"offset", "evaluation", "run"})
    return (request.evaluation, request.run, *fields.values())
