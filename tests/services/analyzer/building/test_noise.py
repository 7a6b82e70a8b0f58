"""Noise beyond a threshold is said beside the figures; up to it nothing is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.analysis import analyze
from services.analyzer.building.noise import MOST_SPREAD, noise_of, parts_of, spread_of
from services.analyzer.frames.evaluation import ANSWERED, Run
from tests.services.analyzer.golden import frames_in

MS = 1_000_000


def _run(services_ns: list[int], *, block_size: int = 10**9, **noise: Any) -> Run:
    queries = [
        [n, n // block_size, 1, None, n * 9 * MS, n * 9 * MS, n * 9 * MS + ns, ns, ANSWERED]
        for n, ns in enumerate(services_ns)
    ]
    run = {"run": "r0", "queries": queries, "conditions": {"noise": noise}}
    return frames_in({"runs": [run]}).measured[0]


def spread_in(run: Run) -> float | None:
    return spread_of(parts_of(run))


@pytest.mark.parametrize(
    ("noise", "is_noisy"),
    [
        ({"involuntary_switches": 50, "cpu_s": 2.0}, False),
        ({"involuntary_switches": 51, "cpu_s": 2.0}, True),
        ({"involuntary_switches": 25, "cpu_s": 0.01}, False),
        ({"involuntary_switches": 26, "cpu_s": 0.01}, True),
        ({"major_faults": 1}, False),
        ({"major_faults": 2}, True),
        ({"issue_lateness_p99_ns": MS}, False),
        ({"issue_lateness_p99_ns": MS + 1}, True),
        ({"load_average_end": 99.0, "cpu_governor": "powersave"}, False),
        ({"involuntary_switches": "many", "major_faults": None}, False),
    ],
)
def test_each_figure_has_its_threshold(noise: dict[str, Any], is_noisy: bool) -> None:
    assert bool(noise_of(_run([MS] * 100, **noise))) is is_noisy


SWITCHES: dict[str, Any] = {"involuntary_switches": 500, "cpu_s": 2.0}


@pytest.mark.parametrize(("others_cpu_s", "is_noisy"), [(0.0, False), (0.4, False), (0.5, True)])
def test_threads_that_took_turns_are_no_noise_of_others(
    others_cpu_s: float, is_noisy: bool
) -> None:
    room: dict[str, Any] = {"others_cpu_s": others_cpu_s, "elapsed_s": 4.0, "cores": 2}
    notes = noise_of(_run([MS] * 100, **SWITCHES, **room))
    said = (
        "noisy: other processes used 6% of its cores, and its threads were preempted 500 times in"
    )
    assert [note.startswith(said) for note in notes] == ([True] if is_noisy else [])


def test_who_took_the_cores_is_not_claimed_where_nobody_told() -> None:
    (note,) = noise_of(_run([MS] * 100, **SWITCHES))
    assert note.endswith("(the limit is 25 a second); by which processes is unknown")


@pytest.mark.parametrize("block_size", [10**9, 50])
@pytest.mark.parametrize(("factor", "is_noisy"), [(1.1, False), (1.4, True)])
def test_a_run_that_slows_down_is_noisy(block_size: int, factor: float, is_noisy: bool) -> None:
    run = _run([MS] * 100 + [int(MS * factor)] * 100, block_size=block_size)
    assert [note.startswith("noisy: medians of its parts vary") for note in noise_of(run)] == (
        [True] if is_noisy else []
    )


def test_a_quiet_run_of_queries_that_take_unequally_long_is_not_noisy() -> None:
    """Seed 12 draws three parts whose medians vary by more than the threshold."""
    times = np.exp(0.3 * np.random.default_rng(12).standard_normal(60))
    run = _run([int(MS * time) for time in times])
    assert (spread_in(run) or 0.0) > MOST_SPREAD
    assert noise_of(run) == []
    slower = [int(MS * time * (1.0 if n < 40 else 2.0)) for n, time in enumerate(times)]
    assert [note.startswith("noisy: medians of its parts vary") for note in noise_of(_run(slower))]


def test_two_blocks_are_cut_into_parts() -> None:
    assert spread_in(_run([MS] * 100 + [2 * MS] * 100, block_size=100)) == pytest.approx(
        0.351, 0.01
    )


def test_blocks_of_few_queries_do_not_count() -> None:
    assert spread_in(_run([MS] * 60 + [9 * MS] * 19, block_size=20)) == 0.0
    assert spread_in(_run([MS] * 60 + [9 * MS] * 20, block_size=20)) == pytest.approx(4 / 3)


def test_the_spread_is_the_coefficient_of_variation() -> None:
    run = _run([1 * MS] * 20 + [2 * MS] * 20 + [3 * MS] * 20, block_size=20)
    assert spread_in(run) == pytest.approx(0.5)


def test_single_slow_queries_are_no_spread() -> None:
    assert spread_in(_run(([MS] * 19 + [50 * MS]) * 10)) == 0.0


@given(st.lists(st.integers(0, 10**9), max_size=59))
def test_too_few_queries_say_nothing(services_ns: list[int]) -> None:
    assert spread_in(_run(services_ns)) is None


@given(st.lists(st.integers(1, 10**6), min_size=60, max_size=80), st.integers(2, 1000))
def test_the_spread_has_no_scale(services_ns: list[int], factor: int) -> None:
    scaled = [ns * factor for ns in services_ns]
    assert spread_in(_run(scaled)) == pytest.approx(spread_in(_run(services_ns)))


def test_queueing_of_an_open_loop_is_no_noise() -> None:
    queries = [[n, 0, 1, 0, 0, n * MS, (n + 1) * MS, None, ANSWERED] for n in range(200)]
    run = frames_in({"runs": [{"run": "r0", "queries": queries}]}).measured[0]
    assert spread_in(run) == 0.0


def test_every_table_of_figures_carries_the_caveat() -> None:
    run = _run([MS] * 100, issue_lateness_p99_ns=5 * MS)
    value = {"queries": run.queries.drop("run_key").rows(), "conditions": run.row.conditions}
    tables = analyze(frames_in({"runs": [{"run": "r7", **value}]})).tables
    note = "r7: noisy: 1% of queries were issued at least 5 ms late (over 1 ms)"
    told = {table.name for table in tables if note in table.caveats}
    assert {"latency", "throughput", "conditions", "levels", "operators", "layers"} <= told
    (conditions,) = [table for table in tables if table.name == "conditions"]
    assert note.partition(": ")[2] in conditions.rows[0]


def test_the_document_and_the_thresholds_agree() -> None:
    from services.analyzer.building import noise

    document = noise.__doc__ or ""
    for threshold in (f"| {noise.MOST_SWITCHES_HZ:.0f} |", "| 0.01 |", "| 1 ms |", "| 10% |"):
        assert threshold in document
    assert "| 5% |" in document
    assert noise.MOST_OTHERS == 0.05
    assert (noise.MOST_FAULTS_A_QUERY, noise.MOST_LATE_NS, MOST_SPREAD) == (0.01, MS, 0.1)


def test_a_part_counts_by_its_median_whatever_its_slow_queries() -> None:
    # The first block has nine slow queries of twenty, the others none.
    first, others = [MS] * 11 + [90 * MS] * 9, [MS] * 20
    assert spread_in(_run(first + 3 * others, block_size=20)) == 0.0


def test_three_blocks_are_the_parts_and_two_are_not() -> None:
    # Each block is steady; cut into ten stretches of twenty, the two are too.
    assert spread_in(_run([MS] * 20 + [2 * MS] * 20 + [3 * MS] * 20, block_size=20)) == 0.5
    ten = spread_in(_run([MS] * 100 + [2 * MS] * 100, block_size=100))
    # Five medians of 1 and five of 2: a deviation of 0.527 over a mean of 1.5.
    assert ten == pytest.approx(0.527 / 1.5, rel=1e-3)


def test_at_most_ten_stretches_are_compared() -> None:
    steps = [MS] * 500 + [2 * MS] * 500
    # Of fifty stretches of twenty the deviation would be 0.505, of ten it is 0.527.
    assert spread_in(_run(steps)) == pytest.approx(0.527 / 1.5, rel=1e-3)


@pytest.mark.parametrize("noise", [None, "much", [1]])
def test_conditions_that_are_no_figures_are_no_noise(noise: Any) -> None:
    queries = [[0, 0, 1, None, 0, 0, MS, MS, ANSWERED]]
    run = {"run": "r0", "queries": queries, "conditions": {"noise": noise}}
    assert noise_of(frames_in({"runs": [run]}).measured[0]) == []


def test_each_note_says_how_much_of_what() -> None:
    noise = {"major_faults": 3, "issue_lateness_p99_ns": 2_500_000}
    assert noise_of(_run([MS] * 100, **noise)) == [
        "noisy: waited for the disk 3 times in 100 queries (over 1%)",
        "noisy: 1% of queries were issued at least 2.5 ms late (over 1 ms)",
    ]
