"""How far a remote load goes on, and what it says of its end."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load import Load, scenario_named
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.errors import InvalidParameter
from mlscope.load.stop_rule import RESULT_RULE
from schemas.plan import RunPlan, WorkOrder
from schemas.request import Blocks
from services.scheduler.remote_load.continuation import Continuation, continuation_of
from services.scheduler.remote_load.issued import LoadProgress
from tests.services.scheduler.remote_load.test_issued import columns
from tests.services.scheduler.remote_load.test_processes import an_order

MS = 1_000_000


def order_with(rule: Blocks, **plan: Any) -> tuple[WorkOrder, RunPlan]:
    """Return an order of one run under a stop rule, and the run."""
    order = an_order()
    (run,) = order.session.runs
    planned = run.model_copy(update=plan)
    session = order.session.model_copy(update={"runs": (planned,)})
    subject = order.subject.model_copy(update={"blocks": rule})
    return order.model_copy(update={"session": session, "subject": subject}), planned


def continued(rule: Blocks, scenario: str = "poisson", **given: Any) -> tuple[Load, Continuation]:
    """Return a scenario's load of 12 samples, in pairs, as far as a rule lets it go on."""
    order, plan = order_with(rule)

    def load(queries: int) -> Load:
        return scenario_named(scenario)({**given, "queries": queries}, 2, 12)

    continuation = continuation_of(order, plan, load(given.get("queries", 100)), load)
    return continuation.load, continuation


def answered(load: Load, latency_ms: list[int]) -> LoadProgress:
    """Return a load of which as many queries as there are latencies were issued and answered."""
    assert load.due_ns is not None
    progress = LoadProgress(0, load.due_ns, np.zeros(load.queries, np.int64))
    answer(progress, latency_ms)
    return progress


def answer(progress: LoadProgress, latency_ms: list[int]) -> None:
    """Issue and answer the next queries."""
    first, due_ns = progress.answered, progress.load.due_ns
    queries = range(first, first + len(latency_ms))
    progress._stamps[first : queries.stop] = 1 + due_ns[first : queries.stop]
    for query, latency in zip(queries, latency_ms, strict=True):
        told = columns([query], int(due_ns[query]) + latency * MS)
        progress.take({**told, "service_ns": np.array([latency * MS], "<i8").tobytes()})


@given(
    rate_hz=st.floats(1.0, 1e4),
    seed=st.integers(0, 2**64 - 1),
    queries=st.integers(1, 50),
    least=st.integers(1, 4),
    more=st.integers(0, 10),
    budget_s=st.floats(0.0, 20.0),
)
def test_a_load_goes_on_as_the_same_process_within_its_budget(
    rate_hz: float, seed: int, queries: int, least: int, more: int, budget_s: float
) -> None:
    rule = Blocks(least=least, most=least + more, interval=0.1, budget_s=budget_s, of="result")
    load, continuation = continued(rule, rate_hz=rate_hz, seed=seed, queries=queries)
    assert load.due_ns is not None
    assert load.due_ns.tolist() == poisson_due_ns(rate_hz, load.queries, seed).tolist()
    assert least * queries <= load.queries <= rule.most * queries
    assert continuation.limit == least * queries
    if budget_s:
        assert (load.due_ns[least * queries :] < budget_s * 1e9).all()


def test_every_block_has_the_samples_of_the_first() -> None:
    load, _ = continued(RESULT_RULE, "fixed_rate", rate_hz=20, queries=100)
    assert load.queries == 200, "the budget of 10 s has them"
    assert load.sample_indices[100:].tolist() == load.sample_indices[:100].tolist()


def test_a_scenario_whose_longer_load_is_another_one_is_issued_once() -> None:
    order, plan = order_with(RESULT_RULE)
    load, _ = continued(Blocks(), "fixed_rate", rate_hz=20)
    assert load.due_ns is not None
    slower = replace(load, due_ns=2 * np.append(load.due_ns, load.due_ns[-1]))

    def refuses(queries: int) -> Load:
        raise InvalidParameter("own", "queries", queries, "at most 100")

    for longer in (lambda _: slower, refuses):
        continuation = continuation_of(order, plan, load, longer)
        assert (continuation.load, continuation.limit) == (load, 100)
        reason, caveat = continuation.ending(answered(load, [5] * 100).first(100))
        assert reason == "most"
        assert caveat.startswith("ended at 100 queries, the most allowed: its 99th percentile")


def test_least_blocks_alone_need_no_look_and_no_caveat() -> None:
    load, continuation = continued(Blocks(least=3, most=9), queries=7)
    assert (load.queries, continuation.limit) == (21, 21)
    assert continuation.ending(answered(load, [5] * 21).first(21)) == ("least", "")


def test_a_steady_load_ends_as_soon_as_its_result_is_known() -> None:
    load, continuation = continued(RESULT_RULE, rate_hz=200, queries=100)
    assert load.queries > 1000
    progress = answered(load, [5] * 650)
    assert continuation.allowance(progress, 4.0) == load.queries
    answer(progress, [5] * 60)
    assert continuation.allowance(progress, 4.2) == 0
    answer(progress, [5, 900])
    assert continuation.allowance(progress, 4.3) == 0, "what is over does not begin again"
    assert continuation.ending(progress.first(712)) == ("interval", "")


def test_a_noisy_load_goes_on_until_its_budget_ends_and_says_so() -> None:
    load, continuation = continued(RESULT_RULE, rate_hz=200, queries=100)
    noisy = np.random.default_rng(0).exponential(20, load.queries).astype(int)
    progress = answered(load, noisy[:1000].tolist())
    assert continuation.allowance(progress, 6.0) == load.queries
    answer(progress, noisy[1000:].tolist())
    reason, caveat = continuation.ending(progress.first(load.queries))
    assert reason == ("most" if load.queries == 2000 else "budget")
    assert caveat.startswith(f"ended at {load.queries} queries, ")
    assert "its 99th percentile is known to within" in caveat


def test_a_load_at_its_default_rate_says_that_the_budget_ended_first() -> None:
    load, continuation = continued(RESULT_RULE, "fixed_rate", rate_hz=20)
    reason, caveat = continuation.ending(answered(load, [5] * load.queries).first(load.queries))
    missing = "its 99th percentile needs 662 answered queries, 200 were"
    assert reason == "budget"
    assert caveat == f"ended at 200 queries, its budget of 10 s spent: {missing}"


@pytest.mark.parametrize(
    ("count", "elapsed_s", "goes_on"),
    [(0, 0.1, False), (1, 0.1, True), (100, 5.0, True), (20, 5.0, False), (190, 9.9, True)],
)
def test_a_load_goes_on_while_waiting_queries_would_be_answered_in_its_budget(
    count: int, elapsed_s: float, goes_on: bool
) -> None:
    load, continuation = continued(RESULT_RULE, "fixed_rate", rate_hz=20)
    progress = answered(load, [100] * count)
    progress._stamps[: int(elapsed_s * 20)] = 1
    assert continuation.allowance(progress, elapsed_s) == (200 if goes_on else 100)


def test_a_load_whose_answers_do_not_keep_up_says_so() -> None:
    load, continuation = continued(RESULT_RULE, "fixed_rate", rate_hz=20)
    reason, caveat = continuation.ending(answered(load, [5] * 101).first(101))
    assert reason == "overload"
    assert caveat.startswith("ended at 101 queries, because its answers did not keep up: its 99th")


def test_levels_share_a_budget_and_a_run_ends_well_before_its_time_out() -> None:
    order, plan = order_with(RESULT_RULE, timeout_s=8.0)
    session = order.session.model_copy(update={"runs": (plan, plan)})
    both = order.model_copy(update={"session": session})
    patient = plan.model_copy(update={"timeout_s": 600.0})
    load, _ = continued(Blocks(), "fixed_rate", rate_hz=20, queries=10)

    def longer(queries: int) -> Load:
        return continued(Blocks(), "fixed_rate", rate_hz=20, queries=queries)[0]

    assert continuation_of(order, plan, load, longer).load.queries == 80
    assert continuation_of(both, patient, load, longer).load.queries == 100


def test_a_rule_of_medians_ends_by_the_medians_of_service_times() -> None:
    rule = Blocks(least=2, most=9, interval=0.05)
    load, continuation = continued(rule, "fixed_rate", rate_hz=20, queries=10)
    progress = answered(load, [5] * 10)
    assert continuation.allowance(progress, 0.5) == 90
    answer(progress, [6] * 10)
    assert continuation.allowance(progress, 1.0) == 90
    answer(progress, [5, 6] * 20)
    assert continuation.allowance(progress, 3.0) == 90
    steady = answered(load, [5] * 20)
    assert continued(rule, "fixed_rate", rate_hz=20, queries=10)[1].allowance(steady, 1.0) == 0
