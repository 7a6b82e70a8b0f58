"""What a result lacks while it is measured."""

import numpy as np
import pytest

from mlscope.load.load import Load
from mlscope.load.precision import Answers, open_loop_shortfall, opening_shortfall, shortfall
from mlscope.load.scenarios import scenario_named
from mlscope.statistics import minimum_count

MS = 1_000_000


def load_of(scenario: str) -> Load:
    """Return the default load of a scenario."""
    return scenario_named(scenario)({}, 1, 10)


def answers_of(*blocks: list[int], due: bool = False) -> Answers:
    """Return queries of these durations (ms), one after the other in each block."""
    answers, at = Answers(), 0
    for block in blocks:
        at += 1000 * MS
        answers.begin_block()
        for spent in block:
            answers.add(at if due else -1, at, at + spent * MS)
            at += spent * MS
    return answers


def test_a_closed_loop_needs_its_mean_and_a_certified_p90() -> None:
    load = load_of("online")
    few = answers_of([10] * 63)
    assert shortfall(load, few, 0.1) == "its 90th percentile needs 64 answered queries, 63 were"
    assert shortfall(load, answers_of([10] * 40, [10] * 40), 0.1) == ""
    noisy = answers_of([1, 100] * 50)
    assert shortfall(load, noisy, 0.1).startswith("its trimmed mean is known to within")
    tail = answers_of([10, 10, 10, 10, 10, 10, 10, 10, 30, 90] * 10)
    assert shortfall(load, tail, 0.1).startswith("its 90th percentile is known to within")
    assert shortfall(load, tail, 5.0) == ""


def test_a_batched_load_needs_its_throughput() -> None:
    load = load_of("batched")
    assert shortfall(load, answers_of([10] * 8), 0.1).startswith("its throughput has no interval")
    assert shortfall(load, answers_of([10] * 20, [10] * 20), 0.1) == ""
    slower = answers_of([10] * 20, [30] * 20)
    assert shortfall(load, slower, 0.1).startswith("its throughput is known to within")


def test_the_time_between_blocks_is_not_the_runs_own() -> None:
    assert answers_of([10] * 2, [20]).contiguous_ends.tolist() == [10 * MS, 20 * MS, 40 * MS]


def test_an_open_loop_needs_a_certified_p99_from_the_due_time() -> None:
    load = load_of("poisson")
    needed = minimum_count(0.99)
    few = shortfall(load, answers_of([10] * 100, due=True), 0.1)
    assert few == f"its 99th percentile needs {needed} answered queries, 100 were"
    assert shortfall(load, answers_of([10] * needed, due=True), 0.1) == ""
    late = Answers()
    late.begin_block()
    late.add(5, 7, 10)
    assert late.latencies.tolist() == [5]


def test_no_answer_is_no_result() -> None:
    answers = Answers()
    answers.begin_block()
    assert shortfall(load_of("online"), answers, 0.1) == "no query was answered"
    nothing = np.zeros(0, np.int64)
    assert open_loop_shortfall(nothing, nothing, 0.1) == "no query was answered"
    assert opening_shortfall(nothing, 0.1) == "no query was answered"


def test_the_time_to_open_needs_its_mean_and_no_percentile() -> None:
    assert opening_shortfall(np.array([100]), 0.1).startswith("its mean has no interval")
    assert opening_shortfall(np.array([90, 110, 100]), 0.1).startswith(
        "its mean is known to within"
    )
    assert opening_shortfall(np.array([100, 101, 100]), 0.1) == ""


@pytest.mark.parametrize("seed", range(3))
def test_more_answers_make_a_result_known(seed: int) -> None:
    spent = np.random.default_rng(seed).normal(100, 5, 4000).astype(int).tolist()
    load = load_of("online")
    assert shortfall(load, answers_of(spent[:30]), 0.02)
    assert shortfall(load, answers_of(spent), 0.02) == ""


def test_each_side_counts_of_a_lopsided_interval() -> None:
    load = load_of("online")
    # The p90 of 100 and its interval of 98 to 106 is 8% wide, but reaches 6% up.
    spent = [98] * 84 + [100] * 8 + [106] * 8
    assert (
        "90th percentile is known to within 6% (95% interval); the goal is within 5%"
        in shortfall(load, answers_of(spent), 0.1)
    )
    assert shortfall(load, answers_of(spent), 0.13) == ""


def test_each_answer_has_its_block() -> None:
    answers = answers_of([10, 20], [], [30])
    assert answers.blocks.tolist() == [0, 0, 2]
    assert answers.latencies.tolist() == [10 * MS, 20 * MS, 30 * MS]


def test_blocks_that_differ_make_a_latency_less_certain() -> None:
    load = load_of("online")
    alike, apart = [[100, 102] * 20] * 6, [[100] * 40, [102] * 40] * 3
    # The same 240 latencies: mixed within each block, or one for each block.
    assert shortfall(load, answers_of(*alike), 0.02) == ""
    assert shortfall(load, answers_of(*apart), 0.02).startswith("its trimmed mean is known to")


def test_an_open_loop_is_known_by_its_latencies_and_their_blocks() -> None:
    needed = minimum_count(0.99)
    latency_ns, blocks = np.full(needed, 10 * MS), np.zeros(needed, np.int64)
    assert open_loop_shortfall(latency_ns, blocks, 0.1) == ""
    assert open_loop_shortfall(latency_ns[1:], blocks[1:], 0.1) == (
        f"its 99th percentile needs {needed} answered queries, {needed - 1} were"
    )


@pytest.mark.parametrize(("due_ns", "latency_ns"), [(0, 10), (3, 7), (-1, 5)])
def test_a_latency_begins_when_its_query_was_due(due_ns: int, latency_ns: int) -> None:
    answers = Answers()
    answers.begin_block()
    answers.add(due_ns, 5, 10)
    assert answers.latencies.tolist() == [latency_ns]


def test_blocks_that_differ_make_a_percentile_less_certain() -> None:
    latency_ns = 10 * MS + np.arange(1000) * MS // 10
    mixed, apart = np.arange(1000) % 10, np.arange(1000) // 100
    # The ten latencies above the percentile: one in each block, or all of them in the last.
    assert open_loop_shortfall(latency_ns, mixed, 0.1) == ""
    missing = open_loop_shortfall(latency_ns, apart, 0.1)
    assert missing == "its 99th percentile has no interval; the goal is within 5%"
