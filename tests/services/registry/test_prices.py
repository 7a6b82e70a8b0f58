"""Prices of agents: who set them is kept, in the log, also of agents that are forgotten."""

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from schemas.agent import AgentLost
from schemas.encoding.codec import decode_body, encode_body
from schemas.message import Command
from schemas.people import THE_USER, Asker
from schemas.price import AgentPriced, Price, PriceKept, SetPrice
from schemas.request import Refused, ShowCatalog
from schemas.status import Catalog
from schemas.subjects import asked_subject
from services.registry import decide
from services.registry.commands import RegistryCommands
from services.registry.state import Memory, fold
from tests.services.registry.fold_of_log import FoldOfLog
from tests.services.registry.test_state import announced, recorded

ADA = Asker("ada", "owner")
FLEET = "mlscope.v1.agent.>"


async def ask(bus: Bus, command: Command, asker: Asker = THE_USER) -> bytes:
    """Return what a registry that has just started answers to `asker`."""
    folded = FoldOfLog(bus, FLEET)
    await folded.reached()
    subject = asked_subject(asker, command.verb) if asker.name else f"x.{command.verb}"
    asked = ReceivedCommand(subject, encode_body(command), wants_answer=True)
    return await RegistryCommands(bus, folded).answer(asked)


async def kept(bus: Bus) -> dict[str, tuple[float, str]]:
    """Return the prices of agents, and who set each."""
    catalog = decode_body(Catalog, await ask(bus, ShowCatalog(kind="price")))
    return {a: (price.dollars_per_hour, price.set_by) for a, price in catalog.prices.items()}


async def test_a_price_is_kept_over_starts_with_who_set_it(bus: Bus) -> None:
    answer = decode_body(PriceKept, await ask(bus, SetPrice(agent="a1", dollars_per_hour=3)))
    assert (answer.dollars_per_hour, answer.repeated) == (3, False)
    await ask(bus, SetPrice(agent="a2", dollars_per_hour=0.5), ADA)
    assert await kept(bus) == {"a1": (3, ""), "a2": (0.5, "ada")}
    await ask(bus, SetPrice(agent="a1", dollars_per_hour=4), ADA)
    assert (await kept(bus))["a1"] == (4, "ada")
    await ask(bus, SetPrice(agent="a2"))
    assert await kept(bus) == {"a1": (4, "ada")}


async def test_the_same_price_is_no_second_fact(bus: Bus) -> None:
    for is_repeated in (False, True):
        answer = decode_body(PriceKept, await ask(bus, SetPrice(agent="a1", dollars_per_hour=3)))
        assert answer.repeated == is_repeated
    assert len(await bus.read(FLEET)) == 1


async def test_prices_are_bounded(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MOST_PRICES", 1)
    await ask(bus, SetPrice(agent="a1", dollars_per_hour=3))
    refused = decode_body(Refused, await ask(bus, SetPrice(agent="a2", dollars_per_hour=3)))
    assert (refused.error, refused.field) == ("exhausted", "agent")
    await ask(bus, SetPrice(agent="a1", dollars_per_hour=4))
    assert await kept(bus) == {"a1": (4, "")}


def test_an_agent_that_is_forgotten_keeps_its_price() -> None:
    facts = (announced("a1", "i1"), AgentPriced(agent="a1", dollars_per_hour=2))
    left = AgentLost(agent="a1", incarnation="i1")
    log = [recorded(fact, n) for n, fact in enumerate((*facts, left, announced("a2", "i1")), 1)]
    state = fold(log, Memory(most_gone=0))
    assert set(state.agents) == {"a2"}
    assert state.prices == {"a1": Price(dollars_per_hour=2, since_ns=state.prices["a1"].since_ns)}
