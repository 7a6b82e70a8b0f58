"""Live spans of an evaluation: decoded once, laid out in lanes, encoded once for all viewers. Pure.

A lane has the number of its first span here; its `key` is that of the stored trace. Depths are
given in the order of arrival, so a span that comes after its children is drawn below them until
the stored trace takes its place.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlscope.tracing.batches import columns_of
from mlscope.tracing.depths import place_in
from mlscope.tracing.lanes import COUNTER, key_of, lane_codes, lane_of
from mlscope.tracing.load_spans import LOAD_NAMES, load_of
from schemas.batch import QueriesAnswered, SpanKind, TraceCaptured
from schemas.trace import QUERY_KIND
from schemas.values.json_values import json_object_in

MOST_ROWS = 5_000
"""Spans of one event: a burst becomes several."""

_MOST_LANES = 4096
"""Spans in further lanes are left out: a page cannot show them, and each is described to it."""
_MOST_DEVICE = 1 << 31

COLUMNS = ("lane", "depth", "start", "duration", "name", "id", "parent")
_LANE_FIELDS = ("lane", "key", "group", "level", "title", "thread", "device", "stream")
_WITH_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET, SpanKind.SAMPLE)


class Row(NamedTuple):
    """A span as an event has it, but with the code of its lane and no depth yet."""

    code: int
    start: int
    duration: int
    name: int
    id: int
    parent: int
    value: float | None
    #: of a span that shows the load: the query's number
    query: int = -1


@dataclass(frozen=True, slots=True)
class SpanGap:
    """Spans of an attempt that do not come, of any lane: `count` of them, 0 unknown."""

    run: str
    attempt: int
    from_ns: int
    to_ns: int
    count: int

    @property
    def data(self) -> str:
        """The content of an event `gap`, one line of JSON."""
        return json.dumps({"lane": None, **asdict(self)}, separators=(",", ":"))

    def joined(self, later: "SpanGap") -> "SpanGap | None":
        """Return this gap with a later one of the same attempt, None for one of another."""
        if (self.run, self.attempt) != (later.run, later.attempt):
            return None
        first, last = min(self.from_ns, later.from_ns), max(self.to_ns, later.to_ns)
        return SpanGap(self.run, self.attempt, first, last, self.count + later.count)


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """An event `spans`: its content, its bytes, and the gap that it leaves where it is dropped."""

    gap: SpanGap
    content: Mapping[str, Any] = field(repr=False)
    data: bytes = field(repr=False)

    name = "spans"
    sequence = 0

    def encoded(self) -> bytes:
        """Return the bytes of the event."""
        return self.data


@dataclass
class _Attempt:
    """What is known of an attempt of a run: the batches that came, and the spans to send."""

    number: int
    came: set[int] = field(default_factory=set)
    next_sequence: int | None = None
    last_end_ns: int = 0
    ends: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    rows: list[Row] = field(default_factory=list)


class SpanRelay:
    """Takes batches as they come; `flush` returns events with the spans since the last one."""

    def __init__(self) -> None:
        """Begin with no lanes and no names."""
        self._gaps: list[SpanGap] = []
        self._attempts: dict[str, _Attempt] = {}
        self._lanes: dict[int, dict[str, Any]] = {}
        self._codes: set[int] = set()
        self._names: dict[str, int] = {}
        self._texts: list[str] = []
        self._announced = (0, 0)
        self._sequence = 0

    def accept(self, fact: TraceCaptured) -> None:
        """Take a batch of spans; a batch that came before, or of an older attempt, adds nothing."""
        attempt = self._attempt(fact.run, fact.attempt)
        if attempt is None or fact.sequence in attempt.came:
            return
        columns = columns_of(fact)
        kind = columns.get("kind", np.zeros(fact.count, np.int8))
        texts = dict(zip(fact.name_ids, fact.name_texts, strict=False))
        numbers = {id_: self._name(text) for id_, text in texts.items()}
        name = np.array([numbers.get(id_, 0) for id_ in columns["name"].tolist()], np.int64)
        device, values = _device_and_value(fact, kind)
        codes = lane_codes(columns["level"], kind, columns["thread"], device, name)
        self._note_gap(fact, attempt, columns["start_ns"].tolist())
        listed = (columns[column] for column in ("start_ns", "duration_ns", "span", "parent"))
        start, duration, span, parent = (array.tolist() for array in listed)
        rows = zip(codes.tolist(), start, duration, name.tolist(), span, parent, strict=True)
        drawn = [
            Row(code, begin, max(length, 0), text, id_, above, values.get(place))
            for place, (code, begin, length, text, id_, above) in enumerate(rows)
            if self._may_draw(code)
        ]
        attempt.rows += drawn
        ends = columns["start_ns"] + columns["duration_ns"]
        last_end_ns = int(ends.max(initial=0))
        if len(drawn) < fact.count:
            left_out = fact.count - len(drawn)
            self._gaps.append(SpanGap(fact.run, fact.attempt, min(start), last_end_ns, left_out))
        attempt.last_end_ns = max(attempt.last_end_ns, last_end_ns)

    def accept_load(self, fact: QueriesAnswered) -> None:
        """Take a batch of queries, which are drawn as spans."""
        attempt = self._attempt(fact.run, fact.attempt)
        if attempt is None or ~fact.sequence in attempt.came:
            return
        attempt.came.add(~fact.sequence)  # numbers below 0 are those of queries
        load = load_of(columns_of(fact))
        names = [self._name(text) for text in LOAD_NAMES]
        for code, start, end, name, id_, query in zip(
            load.code.tolist(),
            load.start.tolist(),
            load.end.tolist(),
            load.name.tolist(),
            load.id.tolist(),
            load.query.tolist(),
            strict=True,
        ):
            duration = max(end - start, 0)
            attempt.rows.append(Row(code, start, duration, names[name], id_, -1, None, query))

    def flush(self) -> list[SpanBatch]:
        """Return the spans that came since the last call as events, and forget them."""
        batches: list[SpanBatch] = []
        for run, attempt in self._attempts.items():
            rows, attempt.rows = attempt.rows, []
            rows.sort(key=lambda row: (row.start, -row.duration))
            batches += [
                self._batch(run, attempt, rows[first : first + MOST_ROWS])
                for first in range(0, len(rows), MOST_ROWS)
            ]
        return batches

    def take_gaps(self) -> list[SpanGap]:
        """Return the stretches of batches that did not come, and forget them."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def last_end_ns(self, run: str) -> int:
        """Return when the last span of a run ended that came so far, 0 without any."""
        return self._attempts[run].last_end_ns if run in self._attempts else 0

    def introduction(self) -> bytes:
        """Return the content of an event without spans, with all lanes and names so far."""
        lanes = list(self._lanes.values())[: self._announced[0]]
        names = self._texts[: self._announced[1]]
        content = {"lanes": lanes, "names": dict(enumerate(names)), **{c: [] for c in COLUMNS}}
        return _json_bytes({"run": "", "attempt": 0, "sequence": self._sequence, **content})

    def whole(self, batch: SpanBatch) -> bytes:
        """Return the content of an event with every lane and name that its spans refer to."""
        content = batch.content
        lanes = list(self._lanes.values())
        names = {number: self._texts[number] for number in sorted(set(content["name"]))}
        used = [lanes[number] for number in sorted(set(content["lane"]))]
        return _json_bytes({**content, "lanes": used, "names": names})

    def _batch(self, run: str, attempt: _Attempt, rows: list[Row]) -> SpanBatch:
        lane, depth = zip(*(self._place(attempt, row) for row in rows), strict=True)
        columns: dict[str, Any] = {
            "lane": lane,
            "depth": depth,
            **{name: [getattr(row, name) for row in rows] for name in COLUMNS[2:]},
        }
        if any(row.value is not None for row in rows):
            columns["value"] = [row.value for row in rows]
        if any(row.query >= 0 for row in rows):
            columns["query"] = [row.query for row in rows]
            columns["kind"] = [QUERY_KIND if row.query >= 0 else 0 for row in rows]
        lanes, names = self._announced
        self._announced = (len(self._lanes), len(self._texts))
        self._sequence += 1
        content = {
            "run": run,
            "attempt": attempt.number,
            "sequence": self._sequence,
            "lanes": list(self._lanes.values())[lanes:],
            "names": dict(enumerate(self._texts[names:], names)),
            **columns,
        }
        end_ns = max(row.start + row.duration for row in rows)
        gap = SpanGap(run, attempt.number, rows[0].start, end_ns, len(rows))
        return SpanBatch(gap, content, b"event: spans\ndata: %s\n\n" % _json_bytes(content))

    def _place(self, attempt: _Attempt, row: Row) -> tuple[int, int]:
        """Return the lane and depth of a span."""
        lane = self._lanes.get(row.code)
        if lane is None:
            key = key_of(row.code)
            series = self._texts[key.track] if key.group == COUNTER else ""
            described = lane_of(len(self._lanes), key, series).model_dump()
            lane = self._lanes[row.code] = {name: described[name] for name in _LANE_FIELDS}
        number: int = lane["lane"]
        end = row.start + max(row.duration, 1)
        return number, place_in(attempt.ends[number], row.start, end)

    def _note_gap(self, fact: TraceCaptured, attempt: _Attempt, starts_ns: list[int]) -> None:
        """Note batches that should have come before this one."""
        expected = fact.sequence if attempt.next_sequence is None else attempt.next_sequence
        if fact.sequence > expected:
            first, last = sorted((attempt.last_end_ns, min(starts_ns, default=0)))
            self._gaps.append(SpanGap(fact.run, fact.attempt, first, last, count=0))
        attempt.came.add(fact.sequence)
        attempt.next_sequence = max(expected, fact.sequence + 1)

    def _attempt(self, run: str, number: int) -> _Attempt | None:
        """Return the newest attempt of a run, None where `number` is an older one."""
        attempt = self._attempts.get(run)
        if attempt is not None and attempt.number > number:
            return None
        if attempt is None or attempt.number < number:
            attempt = self._attempts[run] = _Attempt(number)
        return attempt

    def _may_draw(self, code: int) -> bool:
        """Say whether spans with this number of a lane have one; further lanes are left out."""
        if len(self._codes) < _MOST_LANES:
            self._codes.add(code)
        return code in self._codes

    def _name(self, text: str) -> int:
        if text not in self._names:
            self._names[text] = len(self._texts)
            self._texts.append(text)
        return self._names[text]


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _device_and_value(
    fact: TraceCaptured, kind: npt.NDArray[np.signedinteger]
) -> tuple[npt.NDArray[np.int64], dict[int, float]]:
    """Return each span's device, -1 without one, and the values of samples by row."""
    device, values = np.full(fact.count, -1, np.int64), dict[int, float]()
    kinds = kind.tolist()
    for row, text in zip(fact.attribute_rows, fact.attribute_texts, strict=False):
        if not 0 <= row < len(kinds) or kinds[row] not in _WITH_DEVICE:
            continue
        attributes = json_object_in(text)
        number, value = attributes.get("device"), _finite(attributes.get("value"))
        if isinstance(number, int) and abs(number) <= _MOST_DEVICE:
            device[row] = number
        if kinds[row] == SpanKind.SAMPLE and value is not None:
            values[row] = value
    return device, values


def _finite(value: object) -> float | None:
    """Return a number that is finite as a float, None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
