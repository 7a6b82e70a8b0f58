"""Whose turn it is, against the plain definition."""

import random

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.placement.queues import QueuePosition, Queues


@given(st.integers(0, 10_000))
def test_first_is_who_has_the_best_place_now(seed: int) -> None:
    dice = random.Random(seed)
    queues, known = Queues(), dict[str, dict[str, QueuePosition]]()
    for _ in range(200):
        name, agents = dice.choice("abcdef"), [a for a in AGENTS if dice.random() < 0.5]
        known[name] = {agent: (dice.random() < 0.5, dice.randint(0, 9), name) for agent in agents}
        queues.put(name, known[name])
        waiting = {
            agent: [places[agent] for places in known.values() if agent in places]
            for agent in AGENTS
        }
        firsts = {agent: min(places)[2] for agent, places in waiting.items() if places}
        assert queues.firsts() == firsts
        assert [queues.first(agent) for agent in waiting] == [firsts.get(a, "") for a in waiting]
        assert queues.agents_of(name) == set(agents)


AGENTS = ("a1", "a2", "a3")


def test_outdated_places_do_not_pile_up() -> None:
    queues = Queues()
    for number in range(1000):
        queues.put("a", {"a1": (bool(number % 2), 1, "a")})
        queues.put("b", {"a1": (False, 0, "b")})
    assert len(queues._queues["a1"].heap) < 50
