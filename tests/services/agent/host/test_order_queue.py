"""An agent's orders: whose turn it is, what is under way, and stops that came ahead."""

from typing import cast

import pytest

from schemas.plan import WorkOrder
from services.agent.host.execution import Execution
from services.agent.host.order_queue import MOST_OPEN_ORDERS, OrderQueue
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.state import Ended, Stopping
from services.agent.link.messages import AttemptKey
from tests.services.agent.builders import MANIFESTS, Kept, a_run, an_order


def of_runs(*names: str, session: str = "s0") -> WorkOrder:
    return an_order(runs=tuple(a_run(name) for name in names), session=session)


async def test_orders_come_off_in_the_order_they_were_taken() -> None:
    orders = OrderQueue("a1", "i1")
    new = [of_runs("r0"), of_runs("r1", session="s1")]
    assert [orders.accept(order)[1] for order in (*new, new[0])] == [True, True, False]
    assert orders.changed.is_set()
    assert [await orders.next(), await orders.next()] == new
    assert list(orders.busy) == ["e1/r0/1", "e1/r1/1"]
    orders.apply(Ended(new[0]))
    assert list(orders.busy) == ["e1/r1/1"]


async def test_no_run_comes_off_twice() -> None:
    orders = OrderQueue("a1", "i1")
    both = of_runs("r0", "r1")
    assert [orders.accept(order)[1] for order in (of_runs("r0"), both, both)] == [True, True, False]
    assert [(await orders.next()).runs for _ in range(2)] == [("r0",), ("r1",)]


def test_past_the_bound_and_while_stopping_none_is_taken() -> None:
    orders = OrderQueue("a1", "i1")
    taken = [orders.accept(of_runs(f"r{n}")) for n in range(MOST_OPEN_ORDERS + 1)]
    assert [answer.accepted for answer, _ in taken] == [True] * MOST_OPEN_ORDERS + [False]
    assert taken[-1][0].error == "busy"
    orders.apply(Stopping())
    assert orders.accept(of_runs("late"))[0].error == "stopping"


def test_a_stop_ahead_is_kept_for_its_run_until_the_order_ends() -> None:
    orders, order = OrderQueue("a1", "i1"), of_runs("r0", "r1")
    assert not orders.stop_early(AttemptKey("e1", "r0", 1), "too early")
    orders.accept(order)
    assert orders.stop_early(AttemptKey("e1", "r1", 1), "enough")
    assert not orders.stop_early(AttemptKey("e1", "r1", 2), "another attempt")
    assert orders.early_stops(order) == {"r1": "enough"}
    orders.apply(Ended(order))
    assert orders.early_stops(order) == {}
    assert orders.execution_of(AttemptKey("e1", "r0", 1)) is None


@pytest.mark.parametrize(
    ("name", "is_running"),
    [
        (AttemptKey("e1", "r0", 2), True),
        (AttemptKey("e1", "r1", 2), True),
        (AttemptKey("e1", "r2", 2), False),
        (AttemptKey("e1", "r0", 1), False),
        (AttemptKey("e2", "r0", 2), False),
    ],
)
def test_running_is_the_very_attempt_under_way(name: AttemptKey, is_running: bool) -> None:
    orders, order = OrderQueue("a1", "i1"), an_order(runs=(a_run("r0"), a_run("r1")), attempt=2)
    execution = Execution(
        OutcomePublisher(order, Kept()), cast("WorkerProcess", None), MANIFESTS, silence_s=30.0
    )
    orders.execution = execution
    assert orders.execution_of(name) is (execution if is_running else None)


def test_that_all_files_are_there_is_news() -> None:
    orders, order = OrderQueue("a1", "i1"), of_runs("r0", "r1")
    orders.accept(order)
    orders.changed.clear()
    with orders.fetching(order):
        assert set(orders.fetch_elapsed_s) == {"e1/r0/1", "e1/r1/1"}
        assert not orders.changed.is_set()
    assert orders.changed.is_set()


def test_how_long_files_take_is_told_of_their_order_until_it_ends() -> None:
    orders, order = OrderQueue("a1", "i1"), of_runs("r0", "r1")
    orders.accept(order)
    assert orders.fetch_elapsed_s == {}
    with orders.fetching(order):
        told = [orders.fetch_elapsed_s["e1/r1/1"] for _ in range(3)]
        assert 0 < told[0] < told[1] < told[2]
    after = orders.fetch_elapsed_s
    assert set(after) == {"e1/r0/1", "e1/r1/1"}
    assert after["e1/r0/1"] > told[2]
    assert orders.fetch_elapsed_s == after
    orders.apply(Ended(order))
    assert orders.fetch_elapsed_s == {}
