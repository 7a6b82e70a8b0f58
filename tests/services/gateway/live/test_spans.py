"""Live spans: all of them once, in the lanes of the stored trace; what is dropped is counted."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.batches import Attempt, linked_batch, query_batch, trace_batch
from schemas.batch import SpanKind, TraceCaptured
from services.gateway.live.spans import MOST_ROWS, SpanBatch, SpanRelay
from services.gateway.live.viewer import Viewer
from tests.services.gateway.conftest import Running
from tests.services.gateway.live.test_stream import parsed
from tests.stand_ins import StandIns
from tests.stories import AGENT, E, a_run, beginning, ending, spans

_ATTEMPT = Attempt("e1", "r0", 1, "a1")
_NAMES = {"conv": 0, "relu": 1, "gemm": 2, "power": 3}


def _batch(sequence: int, rows: Sequence[tuple[int, int]], attempt: int = 1) -> TraceCaptured:
    """Return layers that begin at the given times with the given lengths, each an id of its own."""
    filled = [
        (1000 * sequence + place, -1, 3, place % 2, start, length, 4, -1, 0, b"")
        for place, (start, length) in enumerate(rows)
    ]
    return trace_batch(Attempt("e1", "r0", attempt, "a1"), sequence, filled, _NAMES)


def _contents(batches: Sequence[SpanBatch]) -> list[dict[str, Any]]:
    return [json.loads(batch.encoded().split(b"data: ")[1]) for batch in batches]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=12),
        max_size=6,
    )
)
def test_every_span_comes_once_and_none_covers_another(
    batches: list[list[tuple[int, int]]],
) -> None:
    relay, sent, ids = SpanRelay(), dict[int, str](), list[int]()
    taken: set[tuple[int, int, int]] = set()
    for sequence, rows in enumerate(batches):
        relay.accept(_batch(sequence, rows))
        for content in _contents(relay.flush()):
            sent |= {int(number): text for number, text in content["names"].items()}
            ids += content["id"]
            assert {sent[number] for number in content["name"]} <= {"conv", "relu"}
            columns = (content[name] for name in ("lane", "depth", "start", "duration"))
            for lane, depth, start, duration in zip(*columns, strict=True):
                covered = {(lane, depth, ns) for ns in range(start, start + max(duration, 1))}
                assert not covered & taken
                taken |= covered
    assert sorted(ids) == [
        1000 * sequence + place
        for sequence, rows in enumerate(batches)
        for place in range(len(rows))
    ]


def test_lanes_have_the_keys_of_the_stored_trace() -> None:
    relay = SpanRelay()
    rows = [
        (1, -1, 5, 2, 10, 5, 7, -1, 0, b'{"device": 1}', int(SpanKind.KERNEL), 3),
        (2, -1, 5, 3, 12, 0, 0, -1, 0, b'{"value": 61.5, "unit": "W"}', int(SpanKind.SAMPLE), -1),
    ]
    relay.accept(linked_batch(_ATTEMPT, 0, rows, _NAMES))
    relay.accept_load(query_batch(_ATTEMPT, 0, [(0, 0, 1, 5, 8, 9, 20, -1, 0, "")]))
    (content,) = _contents(relay.flush())
    keys = {lane["lane"]: lane["key"] for lane in content["lanes"]}
    lanes = [keys[lane] for lane in content["lane"]]
    assert lanes == ["load/query", "load/late", "load/queued", "device/1/7", "counter/power/0"]
    assert content["value"] == [None, None, None, None, 61.5]
    assert content["query"] == [0, 0, 0, -1, -1], "a query is called by its number"
    assert content["kind"] == [7, 7, 7, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 5000,
        b'{"device": %s}' % (b"9" * 30),
        b'{"value": %s}' % (b"9" * 400),
        b'{"value": 1e999}',
    ],
)
def test_attributes_that_nobody_can_read_are_none(text: bytes) -> None:
    relay = SpanRelay()
    sample = (1, -1, 3, 3, 5, 0, 4, -1, 0, text, SpanKind.SAMPLE, -1)
    relay.accept(linked_batch(_ATTEMPT, 0, [sample], _NAMES))
    (content,) = _contents(relay.flush())
    assert (content["id"], content.get("value")) == ([1], None)


def test_attributes_of_a_row_that_is_not_there_are_none() -> None:
    relay, batch = SpanRelay(), _batch(0, [(1, 1)])
    relay.accept(
        batch.model_copy(update={"attribute_rows": (-5, 7), "attribute_texts": (b"{}", b"{}")})
    )
    assert len(_contents(relay.flush())) == 1


def test_lanes_have_a_limit_and_what_is_left_out_is_counted() -> None:
    relay = SpanRelay()
    rows = [(number, -1, 3, number, number, 0, 4, -1, 0, b"", 6, -1) for number in range(20_000)]
    relay.accept(linked_batch(_ATTEMPT, 0, rows, {f"power{n}": n for n in range(20_000)}))
    contents = _contents(relay.flush())
    assert sum(len(content["id"]) for content in contents) == 4096
    assert [gap.count for gap in relay.take_gaps()] == [20_000 - 4096]


def test_a_batch_that_comes_twice_or_of_an_older_attempt_adds_nothing() -> None:
    relay = SpanRelay()
    for batch in (_batch(0, [(0, 5)]), _batch(0, [(0, 5)]), _batch(0, [(1, 5)], attempt=2)):
        relay.accept(batch)
    relay.accept(_batch(1, [(9, 5)]))
    assert [(c["attempt"], c["id"]) for c in _contents(relay.flush())] == [(2, [0])]
    assert relay.flush() == []


def test_batches_that_do_not_come_leave_a_gap() -> None:
    relay = SpanRelay()
    relay.accept(_batch(4, [(0, 5)]))  # whoever joins late has been told by the feed
    assert relay.take_gaps() == []
    relay.accept(_batch(7, [(60, 5)]))
    (gap,) = relay.take_gaps()
    assert (gap.from_ns, gap.to_ns, gap.count) == (5, 60, 0)
    assert relay.take_gaps() == []


def test_a_burst_becomes_several_events() -> None:
    relay = SpanRelay()
    relay.accept(_batch(0, [(10 * n, 5) for n in range(2 * MOST_ROWS + 1)]))
    contents = _contents(relay.flush())
    assert [len(content["id"]) for content in contents] == [MOST_ROWS, MOST_ROWS, 1]
    assert [content["sequence"] for content in contents] == [1, 2, 3]
    assert [bool(content["names"]) for content in contents] == [True, False, False]


def test_who_comes_later_is_told_all_lanes_and_names() -> None:
    relay = SpanRelay()
    relay.accept(_batch(0, [(0, 5), (5, 5)]))
    (first,) = _contents(relay.flush())
    introduced = json.loads(relay.introduction())
    assert (introduced["lanes"], introduced["names"]) == (first["lanes"], first["names"])
    assert introduced["id"] == []


def test_a_message_of_its_own_has_every_name_and_lane_that_it_uses() -> None:
    relay = SpanRelay()
    relay.accept(_batch(0, [(0, 5), (5, 5)]))
    relay.flush()
    relay.accept(_batch(1, [(20, 5)]))
    (batch,) = relay.flush()
    whole = json.loads(relay.whole(batch))
    assert (whole["names"], [lane["lane"] for lane in whole["lanes"]]) == ({"0": "conv"}, [0])


def test_a_slow_viewer_loses_spans_only_and_they_are_counted() -> None:
    relay = SpanRelay()
    viewer = Viewer([], after=0, wants_spans=True, most_bytes=2000)
    whole = []
    for sequence in range(50):
        relay.accept(_batch(sequence, [(100 * sequence + 10 * n, 5) for n in range(5)]))
        whole += [viewer.push_spans(batch) for batch in relay.flush()]
    viewer.introduce(relay.introduction())
    assert not all(whole)
    gap, introduction, *batches = viewer.take()
    assert gap.name == "gap"
    told = json.loads(gap.data)
    left = sum(
        len(content["id"])
        for content in _contents([b for b in batches if isinstance(b, SpanBatch)])
    )
    assert (told["count"] + left, told["from_ns"]) == (250, 0)
    assert json.loads(introduction.data)["names"] == {"0": "conv", "1": "relu"}
    assert viewer.take() == []


def told_spans(sequence: int, count: int) -> TraceCaptured:
    """Return a batch of the story's evaluation."""
    rows = [(1000 * sequence + n, -1, 3, 0, 10 * n, 5, 4, -1, 0, b"") for n in range(count)]
    return trace_batch(Attempt(E, "r0", 1, AGENT), sequence, rows, _NAMES)


async def test_spans_are_sent_to_whoever_asks_for_them(
    running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    address = f"/api/evaluations/{E}/events"
    async with (
        httpx.AsyncClient(base_url=running.url, timeout=30) as web,
        web.stream("GET", address, params={"spans": "1"}) as watched,
        web.stream("GET", address) as plain,
    ):
        texts = watched.aiter_text()
        text = await anext(texts)
        await standing.tell(told_spans(0, 300), spans(7, sequence=1), told_spans(2, 200))
        while text.count('"run":"r0"') < 1:
            text += await anext(texts)
        await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
        text += "".join([part async for part in texts])
        unasked = "".join([part async for part in plain.aiter_text()])
    events = [event for block in text.split("\n\n") if (event := parsed(block))]
    sent: list[Any] = [content for name, _, content in events if name == "spans"]
    assert len({id_ for content in sent for id_ in content["id"]}) == 500
    assert "gap" in [name for name, _, _ in events]  # for the batch that could not be read
    assert events[-1][0] == "end"
    assert "event: spans" not in unasked


async def test_who_joins_late_is_told_how_much_is_missing(
    running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    address = f"/api/evaluations/{E}/events"
    async with (
        httpx.AsyncClient(base_url=running.url, timeout=30) as web,
        web.stream("GET", address) as first,
    ):
        parts = first.aiter_text()
        text = await anext(parts)
        await standing.tell(told_spans(0, 300))
        while '"spans":[300]' not in text:
            text += await anext(parts)
        async with web.stream("GET", address, params={"spans": "1"}) as second:
            late = second.aiter_text()
            told = await anext(late)
            while "event: gap" not in told:
                told += await anext(late)
    events = [event for block in told.split("\n\n") if (event := parsed(block))]
    gaps = [content for name, _, content in events if name == "gap"]
    assert [(gap["run"], gap["count"]) for gap in gaps] == [("r0", 300)]
