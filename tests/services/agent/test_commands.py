"""What an agent answers to what it cannot read, and when a fault is its own."""

import msgpack
import pytest

from mlscope.bus.memory import MemoryServer, connect
from schemas.codec import unpack
from schemas.subjects import agent_command
from services.agent.commands import Commands
from services.agent.desk import Desk
from services.agent.process import WorkerLimits
from services.agent.sessions import Sessions
from tests.services.agent.builders import an_order

NAMED = {"evaluation": "e1", "run": "r0", "attempt": 1, "session": "s0"}


async def answered(verb: str, words: dict[str, object], desk: Desk, sessions: Sessions) -> str:
    """Return the error of an answer."""
    async with connect(MemoryServer(), "agent") as bus:
        subjects = await Commands(desk, sessions).open(bus, "a1")
        assert subjects[verb] == agent_command("a1", verb)
        return str(unpack(await bus.ask(subjects[verb], msgpack.packb(words)))["error"])


@pytest.fixture
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    return Sessions(WorkerLimits(tmp_path_factory.mktemp("agent"), 1 << 16, 1 << 16))


@pytest.mark.parametrize(
    ("verb", "missing"),
    [("stop", "run"), ("close", "session"), ("query", "query"), ("finish", "queries")],
)
async def test_what_lacks_a_field_is_malformed(verb: str, missing: str, sessions: Sessions) -> None:
    counts = {"query": 0, "query_batches": 1, "queries": 1, "failed_queries": 0}
    words: dict[str, object] = {**NAMED, **counts}
    assert await answered(verb, words, Desk("a1", "i1"), sessions) != "malformed"
    words.pop(missing)
    assert await answered(verb, words, Desk("a1", "i1"), sessions) == "malformed"


async def test_a_fault_of_the_agent_is_not_the_asker_s(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Desk, __: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(Desk, "take", broken)
    order = an_order().model_dump()
    assert await answered("start", order, Desk("a1", "i1"), sessions) == "unavailable"
