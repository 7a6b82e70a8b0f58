"""A bus that records spans of what passes, over a bus in memory and a real receiver."""

from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body
from schemas.run import RunRecorded
from schemas.subjects import agent_command, facts_of
from tests.services.agent.builders import an_order
from tests.services.collector.builders import a_completion, a_request, a_trace

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `telemetry`")
from mlscope.telemetry.bus import TracedBus
from mlscope.telemetry.tracer import Tracer
from tests.flow.span_receiver import Receiver, receiving

EVALUATE = "mlscope.v1.request.evaluate"
ABOVE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECORDED = RunRecorded(evaluation="e1", run="r0", attempt=1, spans=0, queries=0, outputs=0)


@contextmanager
def tracing(bus: Bus) -> Iterator[tuple[TracedBus, Receiver]]:
    """Lend a bus that records, and the receiver, which has all spans after the block."""
    with receiving() as receiver:
        tracer = Tracer(bus.name, receiver.address, {})
        try:
            yield TracedBus(bus, tracer), receiver
        finally:
            tracer.close()


async def accepted(_: ReceivedCommand) -> bytes:
    return b"{}"


@pytest.mark.parametrize(
    ("given", "trace", "parent"),
    [
        (ABOVE, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"),
        (f"{ABOVE[:-2]}00", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"),
        ("00-zz", None, ""),
        ("x" * 5000, None, ""),
    ],
)
async def test_a_request_is_a_child_of_its_requesters_span_if_it_names_one(
    given: str, trace: str | None, parent: str
) -> None:
    async with connect(MemoryServer(), "scheduler") as bus:
        with tracing(bus) as (traced, receiver):
            await traced.answer(EVALUATE, accepted, queue="scheduler")
            await bus.ask(EVALUATE, b"{}", traceparent=given)
    (span,) = receiver.spans
    assert (span.service, span.name, span.parent) == ("scheduler", "accept", parent)
    assert trace is None or span.trace == trace


async def test_an_order_repeated_after_its_runs_ended_begins_no_session() -> None:
    """Nor does it change what its runs come from."""
    answers = [b'{"accepted": true}', b'{"accepted": true, "message": "known"}']

    async def answering(_: ReceivedCommand) -> bytes:
        return answers.pop(0)

    subject = agent_command("a1", "start")
    async with connect(MemoryServer(), "agent") as bus:
        with tracing(bus) as (traced, receiver):
            await traced.answer(subject, answering, queue=None)
            for _ in range(2):
                await bus.ask(subject, encode_body(an_order()), traceparent=ABOVE)
                await traced.publish(a_completion(), id="c")
            assert traced._sessions == {}
    session, *runs = sorted(receiver.of("e1"), key=lambda span: span.name, reverse=True)
    assert [(run.name, run.parent) for run in runs] == 2 * [("run", session.span)]


async def test_a_command_without_an_answer_is_a_failed_span() -> None:
    async with connect(MemoryServer(), "scheduler") as bus:
        with tracing(bus) as (traced, receiver), pytest.raises(NoAnswer):
            await traced.ask(agent_command("a1", "stop"), b'{"evaluation": "e1"}')
    (span,) = receiver.of("e1")
    assert (span.name, span.is_failed) == ("command stop", True)


async def test_a_restarted_service_finds_the_context_in_the_log() -> None:
    async with connect(MemoryServer(), "collector") as bus:
        await bus.publish(a_request(), id="r", traceparent=ABOVE)
        with tracing(bus) as (traced, _):
            await traced.publish(RECORDED, id="x")
        (recorded,) = await bus.read(facts_of(RunRecorded))
    assert recorded.envelope.traceparent == ABOVE


async def test_a_delivered_fact_is_handled_within_a_span_of_its_cause() -> None:
    async with connect(MemoryServer(), "collector") as bus:
        await bus.publish(a_completion(), id="c", traceparent=ABOVE)
        with tracing(bus) as (traced, receiver):
            async with aclosing(traced.deliveries("recorder")) as deliveries:
                (delivery,) = await anext(deliveries)
                await traced.publish(RECORDED, id="x")
                await delivery.ack()
        *_, recorded = await bus.read(facts_of(RunRecorded))
    (span,) = receiver.of("e1")
    assert (span.name, span.parent) == ("collect", ABOVE.split("-")[2])
    assert recorded.envelope.traceparent.split("-")[2] == span.span


async def test_batches_have_no_context() -> None:
    async with connect(MemoryServer(), "agent") as bus:
        with tracing(bus) as (traced, receiver):
            await traced.publish(a_trace(), id="t")
        (recorded,) = await bus.read("mlscope.v1.trace.>")
    assert (recorded.envelope.traceparent, receiver.spans) == ("", [])


async def test_no_receiver_holds_a_service_up() -> None:
    async with connect(MemoryServer(), "agent") as bus:
        tracer = Tracer("agent", "http://127.0.0.1:1", {})
        await TracedBus(bus, tracer).publish(a_completion(), id="c")
        tracer.close()
