"""A bus that records spans of what passes, over a bus in memory and a real receiver."""

import os
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast

import pytest

from cli.commands import serve
from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer
from mlscope.bus.records import ReceivedCommand
from mlscope.settings import InvalidSetting, Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.run import RunRecorded
from schemas.subjects import agent_command, facts_of
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


async def test_without_the_setting_a_service_has_its_own_bus() -> None:
    bus: Any = object()
    async with serve._traced(cast("Bus", bus), Settings.read(os.environ)) as own:
        assert own is bus


async def test_without_opentelemetry_the_setting_is_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    settings = Settings.read({"MLSCOPE_TELEMETRY_URL": "http://127.0.0.1:4318"})
    async with connect(MemoryServer(), "agent") as bus:
        with pytest.raises(InvalidSetting, match=r"pip install 'mlscope\[telemetry\]'"):
            await serve._traced(bus, settings).__aenter__()
