"""What an agent answers to commands it can't read, and when a fault is its own."""

import msgpack
import numpy as np
import pytest

from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import unpack
from schemas.subjects import agent_command
from services.agent.host.commands import Commands, parse_query
from services.agent.host.order_queue import OrderQueue
from services.agent.host.process import WorkerLimits
from services.agent.host.sessions import Sessions
from tests.services.agent.builders import an_order

NAMED = {"evaluation": "e1", "run": "r0", "attempt": 1, "session": "s0"}


async def answered(
    verb: str, fields: dict[str, object], orders: OrderQueue, sessions: Sessions
) -> str:
    """Return the error of an answer."""
    async with connect(MemoryServer(), "agent") as bus:
        subjects = await Commands(orders, sessions).open(bus, "a1")
        assert subjects[verb] == agent_command("a1", verb)
        return str(unpack(await bus.ask(subjects[verb], msgpack.packb(fields)))["error"])


@pytest.fixture
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    return Sessions(WorkerLimits(tmp_path_factory.mktemp("agent"), 1 << 16, 1 << 16))


@pytest.mark.parametrize(
    ("verb", "missing"),
    [("stop", "run"), ("close", "session"), ("query", "query"), ("finish", "queries")],
)
async def test_what_lacks_a_field_is_malformed(verb: str, missing: str, sessions: Sessions) -> None:
    counts = {"query": 0, "query_batches": 1, "queries": 1, "failed_queries": 0}
    fields: dict[str, object] = {**NAMED, **counts}
    assert await answered(verb, fields, OrderQueue("a1", "i1"), sessions) != "malformed"
    fields.pop(missing)
    assert await answered(verb, fields, OrderQueue("a1", "i1"), sessions) == "malformed"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "x", None, []])
@pytest.mark.parametrize("verb", ["stop", "query", "finish"])
async def test_an_attempt_that_is_no_number_is_malformed(
    verb: str, value: object, sessions: Sessions
) -> None:
    counts = {"query": 0, "query_batches": 1, "queries": 1, "failed_queries": 0}
    fields: dict[str, object] = {**NAMED, **counts, "attempt": value}
    assert await answered(verb, fields, OrderQueue("a1", "i1"), sessions) == "malformed"


async def test_a_fault_of_the_agent_is_not_the_asker_s(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: OrderQueue, __: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(OrderQueue, "accept", broken)
    order = an_order().model_dump()
    assert await answered("start", order, OrderQueue("a1", "i1"), sessions) == "unavailable"


def test_a_query_names_its_samples() -> None:
    samples = np.array([9, 2], "<i4").tobytes()
    fields = {**NAMED, "query": 4, "block": 1, "samples": samples}
    command = parse_query(msgpack.packb(fields))
    query = command.query
    assert (command.fault, query.query, query.block, query.samples) == ("", 4, 1, (9, 2))
    assert (query.key, query.payload) == (("e1", "r0", 1), None)
    assert query.received_ns > 0


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"samples": b"123"},
        {"samples": 7},
        {"samples": b"\0\0\0\0", "payload": [b"a", b"b"]},
        {"samples": b"\0\0\0\0", "payload": 7},
        {"samples": b"\0\0\0\0", "block": "x"},
    ],
)
def test_a_query_that_makes_no_sense_has_a_fault(fields: dict[str, object]) -> None:
    command = parse_query(msgpack.packb({**NAMED, "query": 1, **fields}))
    assert command.fault
    assert command.query.samples == ()


@pytest.mark.parametrize("number", ["x", None, [1]])
def test_a_query_without_a_number_is_refused(number: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse_query(msgpack.packb({**NAMED, "query": number, "samples": b""}))
