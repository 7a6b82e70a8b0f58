"""Spans and facts of many answers become one: the deepest run, up to as many as were asked for."""

from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Flow, SpanRow, Spans, TracedRun
from schemas.level import Level
from schemas.request import ShowFlow
from schemas.trace import ShowSpans
from tests.mlscope.client.answers import answering
from tests.stories import E

PAGE = 3
COUNT = 8
RUNS = (
    TracedRun(run="r0", attempt=1, level=Level.MODEL),
    TracedRun(run="r1", attempt=1, level=Level.FRAMEWORK),
)


@pytest.fixture
async def analyzer(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "analyzer") as analyzer:
        yield analyzer


@pytest.fixture
async def alone(bus: Bus) -> AsyncIterator[AsyncClient]:
    """Lend a client of nobody but the analyzer."""
    async with AsyncClient(bus=bus) as client:
        yield client


def a_span(number: int) -> SpanRow:
    """Return span `number`; two begin at a time."""
    return SpanRow(number, None, None, 1, "s", number // 2, 1, 0, 0, 0, 0, -1, "", "")


def page(asked: ShowSpans) -> Spans:
    """Answer with the next spans after the last one, `PAGE` at a time."""
    after = (asked.after_ns, asked.after_span)
    spans = [a_span(n) for n in range(COUNT) if (a_span(n).start_ns, n) > after]
    return Spans(
        evaluation=asked.evaluation,
        runs=RUNS,
        run=asked.run or "r0",
        spans=tuple(spans[:PAGE]),
        more=len(spans) > PAGE,
    )


async def test_without_a_name_it_is_the_run_traced_deepest(
    analyzer: Bus, alone: AsyncClient
) -> None:
    asked = await answering(analyzer, ShowSpans, page)
    trace = await alone.trace(E)
    assert trace.run == RUNS[1]
    assert [span.span for span in trace.spans] == list(range(COUNT))
    assert not trace.is_cut
    assert [command.run for command in asked] == ["", "r1", "r1", "r1"]


async def test_a_named_run_is_asked_for_at_once(analyzer: Bus, alone: AsyncClient) -> None:
    asked = await answering(analyzer, ShowSpans, page)
    assert (await alone.trace(E, "r0")).run == RUNS[0]
    assert {command.run for command in asked} == {"r0"}


@pytest.mark.parametrize(
    ("most", "count", "is_cut", "pages"),
    [(0, 8, False, 3), (8, 8, False, 3), (7, 7, True, 3), (4, 4, True, 2), (99, 8, False, 3)],
)
async def test_a_trace_without_its_last_spans_says_so(
    analyzer: Bus, alone: AsyncClient, most: int, count: int, is_cut: bool, pages: int
) -> None:
    asked = await answering(analyzer, ShowSpans, page)
    trace = await alone.trace(E, "r0", most)
    assert (len(trace.spans), trace.is_cut, len(asked)) == (count, is_cut, pages)


async def test_a_page_without_spans_ends_a_trace_that_promised_more(
    analyzer: Bus, alone: AsyncClient
) -> None:
    def nothing(asked: ShowSpans) -> Spans:
        return page(asked).model_copy(update={"spans": (), "more": True})

    await answering(analyzer, ShowSpans, nothing)
    trace = await alone.trace(E, "r0")
    assert (trace.spans, trace.is_cut) == ([], True)


@pytest.mark.parametrize("size", [2, 100])
async def test_facts_of_many_answers_are_one_list(
    analyzer: Bus, alone: AsyncClient, size: int
) -> None:
    facts = tuple({"schema": f"fact {n}"} for n in range(5))

    def answer(asked: ShowFlow) -> Flow:
        some = facts[asked.offset : asked.offset + size]
        return Flow(evaluation=E, facts=some, more=asked.offset + size < len(facts))

    await answering(analyzer, ShowFlow, answer)
    assert await alone.flow(E) == list(facts)


async def test_an_answer_without_facts_is_the_last_one(analyzer: Bus, alone: AsyncClient) -> None:
    asked = await answering(analyzer, ShowFlow, lambda _: Flow(evaluation=E, facts=(), more=True))
    assert await alone.flow(E) == []
    assert len(asked) == 1
