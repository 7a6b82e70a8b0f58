"""Orders: what an agent answers to `start`."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.plan import WorkOrder
from services.agent.host.state import Accepted, Ended, Orders, Stopping, decide_start, evolve
from tests.services.agent.builders import a_run, an_order


def start(state: Orders, order: WorkOrder, most_open: int = 3) -> tuple[Orders, str]:
    """Send an order; return the orders after it and the error, '' when accepted."""
    answer, events = decide_start(state, order, "a1", "i1", most_open)
    for event in events:
        state = evolve(state, event)
    return state, "" if answer.accepted else answer.error


def test_an_order_keeps_its_runs_busy_until_they_ended() -> None:
    order = an_order(runs=(a_run("r0"), a_run("r1")))
    state, error = start(Orders(), order)
    assert (error, state.busy) == ("", ("e1/r0/1", "e1/r1/1"))
    assert evolve(state, Ended(order)).busy == ()


def test_the_same_attempt_again_is_accepted_once() -> None:
    order = an_order()
    state, _ = start(Orders(), order)
    again, error = start(state, order)
    assert (error, len(again.open)) == ("", 1)
    ended, error = start(evolve(state, Ended(order)), order)
    assert (error, ended.open) == ("", ())


def test_of_an_order_that_is_known_in_part_the_other_runs_are_taken() -> None:
    """A scheduler that dies or looks between two starts of a group orders the first alone."""
    both = an_order(runs=(a_run("r0"), a_run("r1")))
    state, _ = start(Orders(), both.model_copy(update={"runs": ("r0",)}))
    state, error = start(state, both)
    assert (error, state.busy) == ("", ("e1/r0/1", "e1/r1/1"))
    assert start(state, both)[0].open == state.open


def test_an_older_attempt_is_stale() -> None:
    state, _ = start(Orders(), an_order(attempt=3))
    assert start(state, an_order(attempt=2))[1] == "stale"
    assert start(state, an_order(attempt=4))[1] == ""


def test_an_order_for_another_start_of_the_agent_is_stale() -> None:
    order = an_order().model_copy(update={"incarnation": "i0"})
    assert start(Orders(), order)[1] == "stale"
    assert start(Orders(), order.model_copy(update={"incarnation": "i1"}))[1] == ""


def test_an_order_for_another_agent_is_unknown() -> None:
    order = an_order().model_copy(update={"agent": "a2"})
    assert start(Orders(), order)[1] == "unknown"


def test_while_stopping_nothing_new_is_taken() -> None:
    known = an_order()
    state, _ = start(Orders(), known)
    state = evolve(state, Stopping())
    assert start(state, an_order(attempt=2))[1] == "stopping"
    assert start(state, known)[1] == ""


@given(st.lists(st.integers(1, 4), max_size=30), st.integers(1, 3))
def test_the_queue_is_bounded(attempts: list[int], most_open: int) -> None:
    state = Orders()
    for number, attempt in enumerate(attempts):
        order = an_order(runs=(a_run(f"r{number % 7}"),), attempt=attempt)
        state, error = start(state, order, most_open)
        assert error in ("", "stale", "busy")
        assert len(state.open) <= most_open


_RUNS = st.lists(st.sampled_from(("r0", "r1", "r2")), min_size=1, unique=True)


@given(st.lists(st.tuples(_RUNS, st.integers(1, 3), st.booleans()), max_size=20))
def test_no_attempt_is_measured_twice(orders: list[tuple[list[str], int, bool]]) -> None:
    state, accepted = Orders(), []
    for runs, attempt, has_ended in orders:
        order = an_order(runs=tuple(map(a_run, runs)), attempt=attempt)
        _, events = decide_start(state, order, "a1", "i1", 3)
        for event in events:
            assert isinstance(event, Accepted)
            state = evolve(state, event)
            accepted += [(run, attempt) for run in event.order.runs]
            state = evolve(state, Ended(event.order)) if has_ended else state
    assert len(accepted) == len(set(accepted))


def test_what_is_remembered_is_bounded() -> None:
    state = Orders()
    for number in range(50):
        order = an_order().model_copy(update={"evaluation": f"e{number}"})
        state = evolve(evolve(state, Accepted(order)), Ended(order))
    assert len(state.attempts) == 50
    assert state.attempts["e49", "r0"] == 1
