"""The main figures of an evaluation: of each load, those of the run in its verdict."""

from services.analyzer.analysis import analyze
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query


def test_each_load_has_the_figures_of_its_plainest_run() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    plain = {"run": "r0", "level": 0, "scenario": "online", "agent": "a1", "queries": queries}
    traced = {**plain, "run": "r1", "level": 2}
    large = {**plain, "run": "r2", "batch_size": 8}
    opened = {**plain, "run": "r3", "scenario": "poisson", "parameters": {"rate_hz": 5}}
    done = analyze(frames_in({"runs": [traced, large, plain, opened]}))
    first, second = done.headlines
    assert (first.run, first.scenario, first.statistic) == ("r0", "online", "trimmed_mean")
    assert first.latency_ns is not None
    assert first.samples_per_s is not None
    assert (first.latency_ns.value, second.run) == (9.0, "r3")
    assert second.parameters == '{"rate_hz": 5}'
    assert first.p90_ns is not None
    assert (first.p90_ns.value, first.queries, first.is_noisy) == (9.0, 20, False)


def test_a_noisy_run_says_so_in_its_headline() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    noise = {"cpu_s": 10.0, "involuntary_switches": 9000.0}
    run = {"run": "r0", "agent": "a1", "queries": queries, "conditions": {"noise": noise}}
    [headline] = analyze(frames_in({"runs": [run]})).headlines
    assert headline.is_noisy


def test_without_answers_there_is_no_headline() -> None:
    assert analyze(frames_in({"runs": [{"run": "r0", "agent": "a1"}]})).headlines == ()
