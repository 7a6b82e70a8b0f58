"""When queries begin."""

from collections.abc import Callable

import pytest

from mlscope.load.scenarios import scenario_named
from services.agent.errors import Stopped
from services.agent.worker.queries.issuing import NOT_DUE, closed_loop, is_inline, open_loop, paced
from services.agent.worker.queries.streaming import Unbounded


def ends_at(calls: int) -> Callable[[], None]:
    """Return a check that ends the run when it is called so often."""
    left = iter(range(calls))

    def check() -> None:
        if next(left, None) is None:
            raise Stopped("enough")

    return check


def test_an_online_load_needs_no_thread() -> None:
    load = scenario_named("online")({"queries": 7}, 2, 50)
    assert is_inline(load)
    made = list(closed_loop(load, 2, 14, Unbounded(), lambda: None))
    assert [query.index for query in made] == list(range(14, 21))
    assert made[1].samples == [2, 3]
    assert (made[0].due_ns, made[0].block) == (NOT_DUE, 2)


def test_an_open_load_is_issued_when_due_and_never_early() -> None:
    load = scenario_named("fixed_rate")({"queries": 5, "rate_hz": 500}, 1, 50)
    with paced(load) as pacer:
        made = list(open_loop(load, 0, 0, pacer, lambda: None))
    assert [query.index for query in made] == list(range(5))
    assert all(query.issued_ns >= query.due_ns for query in made)
    assert made[4].due_ns - made[0].due_ns == 8_000_000


@pytest.mark.parametrize(
    ("scenario", "parameters", "inline"),
    [
        ("online", {}, True),
        ("batched", {"concurrency": 2}, False),
        ("fixed_rate", {"rate_hz": 100}, False),
        ("poisson", {"rate_hz": 100}, False),
    ],
)
def test_threads_are_for_loads_with_several_in_flight(
    scenario: str, parameters: dict[str, float], inline: bool
) -> None:
    load = scenario_named(scenario)({"queries": 3, **parameters}, 1, 50)
    assert is_inline(load) is inline


def test_a_closed_loop_asks_before_each_query_whether_it_may_go_on() -> None:
    load = scenario_named("online")({"queries": 9}, 1, 50)
    made = closed_loop(load, 0, 0, Unbounded(), ends_at(2))
    assert [next(made).index, next(made).index] == [0, 1]
    with pytest.raises(Stopped):
        next(made)


def test_an_open_loop_asks_before_each_query_whether_it_may_go_on() -> None:
    load = scenario_named("fixed_rate")({"queries": 9, "rate_hz": 1000}, 1, 50)
    with paced(load) as pacer, pytest.raises(Stopped):
        list(open_loop(load, 1, 9, pacer, ends_at(2)))
