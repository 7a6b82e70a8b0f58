"""Spans read page by page, each with its place; and answers that fit."""

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import cast

import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.tracing.batches import trace_batch
from schemas.analysis import Spans
from schemas.encoding.codec import unpack
from schemas.trace import ShowSpans
from services.analyzer.answering.traces import Traces, fitting
from services.analyzer.errors import DatabaseAway, NoSuchRun
from services.analyzer.store import migrate
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    an_attempt,
)


@pytest.fixture
async def traces(database_url: str) -> AsyncIterator[Traces]:
    """Return what reads a database that holds one run of 12 spans."""
    collector.migrate(database_url)
    migrate(database_url)
    rows = [(10 + n, -1, 2, 7, 100 * (n // 2), 5, 0, n, 0, b"") for n in range(10)]
    batches = (a_linked_trace(), trace_batch(an_attempt(), 1, rows, {"predict": 7}))
    completed = a_completion()
    tally = completed.tally.model_copy(update={"spans": 12})
    with closing(collector.Store(database_url)) as stored:
        stored.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        ended = completed.model_copy(update={"tally": tally})
        stored.end_run(run_row(ended, a_plan().plan, REQUESTED_NS, "c0"))
    async with connect(MemoryServer(), "analyzer") as bus:
        with closing(Traces(bus, database_url)) as traces:
            yield traces


def _all(traces: Traces, limit: int) -> Iterator[Spans]:
    wanted = ShowSpans(evaluation="e1", limit=limit)
    while True:
        page = traces.read(wanted)
        yield page
        if not page.more:
            return
        last = page.spans[-1]
        after = {"after_ns": last.start_ns, "after_span": last.span}
        wanted = wanted.model_copy(update=after)


async def test_pages_together_are_all_spans_once(traces: Traces) -> None:
    whole = traces.read(ShowSpans(evaluation="e1"))
    assert [each.span for each in whole.spans][:4] == [10, 11, 1, 2]
    assert len(whole.spans) == 12
    assert not whole.more
    pages = list(_all(traces, 5))
    assert [len(page.spans) for page in pages] == [5, 5, 2]
    assert [span for page in pages for span in page.spans] == list(whole.spans)


async def test_spans_have_names_links_and_attributes(traces: Traces) -> None:
    found = {each.span: each for each in traces.read(ShowSpans(evaluation="e1", run="r0")).spans}
    launch, kernel = found[1], found[2]
    assert (launch.name, launch.kind, launch.correlation) == ("cudaLaunchKernel", 1, 33)
    assert (kernel.name, kernel.thread, kernel.attributes) == ("gemm", 7, '{"device": 1}')


async def test_what_is_not_there_is_refused(traces: Traces) -> None:
    for wanted in (ShowSpans(evaluation="e2"), ShowSpans(evaluation="e1", run="r9")):
        with pytest.raises(NoSuchRun):
            traces.read(wanted)


def test_a_database_without_spans_is_away(database_url: str) -> None:
    with closing(Traces(cast("Bus", None), database_url)) as traces, pytest.raises(DatabaseAway):
        traces.read(ShowSpans(evaluation="e1"))


async def test_an_answer_that_is_too_large_is_halved_and_says_so(traces: Traces) -> None:
    whole = traces.read(ShowSpans(evaluation="e1"))
    told = unpack(fitting(whole, 400, json_text=False))
    assert told["more"] is True
    assert 0 < len(told["spans"]) < 12
    large = whole.spans[0]._replace(attributes=" " * 5000)
    alone = whole.model_copy(update={"spans": (large,)})
    assert unpack(fitting(alone, 700, json_text=False))["spans"][0][-1] == '{"left_out": true}'
