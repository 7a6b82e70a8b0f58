"""An agent's desk: whose turn it is, what is under way, and stops that came ahead."""

from typing import cast

import pytest

from schemas.plan import WorkOrder
from services.agent.desk import MOST_OPEN_ORDERS, Desk, RunName
from services.agent.execution import Execution
from services.agent.process import WorkerProcess
from services.agent.state import Ended, Stopping
from services.agent.telling import Telling
from tests.services.agent.builders import MANIFESTS, Kept, a_run, an_order


def of_runs(*names: str, session: str = "s0") -> WorkOrder:
    return an_order(runs=tuple(a_run(name) for name in names), session=session)


async def test_orders_come_off_in_the_order_they_were_taken() -> None:
    desk = Desk("a1", "i1")
    orders = [of_runs("r0"), of_runs("r1", session="s1")]
    assert [desk.take(order)[1] for order in (*orders, orders[0])] == [True, True, False]
    assert desk.changed.is_set()
    assert [await desk.next(), await desk.next()] == orders
    assert list(desk.busy) == ["e1/r0/1", "e1/r1/1"]
    desk.change(Ended(orders[0]))
    assert list(desk.busy) == ["e1/r1/1"]


def test_past_the_bound_and_while_stopping_none_is_taken() -> None:
    desk = Desk("a1", "i1")
    taken = [desk.take(of_runs(f"r{n}")) for n in range(MOST_OPEN_ORDERS + 1)]
    assert [answer.accepted for answer, _ in taken] == [True] * MOST_OPEN_ORDERS + [False]
    assert taken[-1][0].error == "busy"
    desk.change(Stopping())
    assert desk.take(of_runs("late"))[0].error == "stopping"


def test_a_stop_ahead_is_kept_for_its_run_until_the_order_ends() -> None:
    desk, order = Desk("a1", "i1"), of_runs("r0", "r1")
    assert not desk.stop_ahead(("e1", "r0", 1), "too early")
    desk.take(order)
    assert desk.stop_ahead(("e1", "r1", 1), "enough")
    assert not desk.stop_ahead(("e1", "r1", 2), "another attempt")
    assert desk.stops_of(order) == {"r1": "enough"}
    desk.change(Ended(order))
    assert desk.stops_of(order) == {}
    assert desk.running(("e1", "r0", 1)) is None


@pytest.mark.parametrize(
    ("name", "is_running"),
    [
        (("e1", "r0", 2), True),
        (("e1", "r1", 2), True),
        (("e1", "r2", 2), False),
        (("e1", "r0", 1), False),
        (("e2", "r0", 2), False),
    ],
)
def test_running_is_the_very_attempt_under_way(name: RunName, is_running: bool) -> None:
    desk, order = Desk("a1", "i1"), an_order(runs=(a_run("r0"), a_run("r1")), attempt=2)
    execution = Execution(
        Telling(order, Kept()), cast("WorkerProcess", None), MANIFESTS, silence_s=30.0
    )
    desk.execution = execution
    assert desk.running(name) is (execution if is_running else None)


def test_how_long_files_take_is_told_of_their_order_until_it_ends() -> None:
    desk, order = Desk("a1", "i1"), of_runs("r0", "r1")
    desk.take(order)
    assert desk.brought_s == {}
    desk.changed.clear()
    with desk.bringing(order):
        told = [desk.brought_s["e1/r1/1"] for _ in range(3)]
        assert 0 < told[0] < told[1] < told[2]
        assert not desk.changed.is_set()
    assert desk.changed.is_set()
    after = desk.brought_s
    assert set(after) == {"e1/r0/1", "e1/r1/1"}
    assert after["e1/r0/1"] > told[2]
    assert desk.brought_s == after
    desk.change(Ended(order))
    assert desk.brought_s == {}
