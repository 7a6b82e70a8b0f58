"""The main figures of an evaluation: of each load, those of the run in its verdict."""

from typing import Any

from schemas.analysis import Estimate, Headline
from services.analyzer.analysis import analyze
from services.analyzer.headlines import batch_headlines_of, headlines_of
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.latency import MOST_IN_VERDICT
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import MS, query


def test_each_load_has_the_figures_of_its_plainest_run() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    plain = {"run": "r0", "level": 0, "scenario": "online", "agent": "a1", "queries": queries}
    plain["framework"] = "litert"
    traced = {**plain, "run": "r1", "level": 2}
    large = {**plain, "run": "r2", "batch_size": 8}
    opened = {**plain, "run": "r3", "scenario": "poisson", "parameters": {"rate_hz": 5}}
    done = analyze(frames_in({"runs": [traced, large, plain, opened]}))
    first, second = done.headlines
    assert (first.run, first.scenario, first.statistic) == ("r0", "online", "trimmed_mean")
    assert first.framework == "litert"
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


def test_a_run_that_was_cut_off_has_no_headline() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    part = {"run": "r0", "agent": "a1", "end": "cancelled", "queries": queries}
    analyzed = analyze(frames_in({"runs": [part]}))
    assert (analyzed.headlines, analyzed.summaries) == ((), ())


def test_a_complete_run_has_the_headline_beside_one_that_was_cut_off() -> None:
    queries = [query(number, 10 * number, 10 * number + 9) for number in range(20)]
    part = {"run": "r0", "agent": "a1", "end": "cancelled", "queries": queries}
    whole = {**part, "run": "r1", "level": 2, "end": "completed"}
    analyzed = analyze(frames_in({"runs": [part, whole]}))
    assert [headline.run for headline in analyzed.headlines] == ["r1"]


def test_without_answers_there_is_no_headline() -> None:
    assert analyze(frames_in({"runs": [{"run": "r0", "agent": "a1"}]})).headlines == ()


def headlines(*runs: dict[str, Any]) -> tuple[Headline, ...]:
    """Return the headlines of described runs, by their tables of latency and throughput."""
    frames = frames_in({"runs": list(runs)})
    return headlines_of(frames.measured, [LATENCY.compute(frames), THROUGHPUT.compute(frames)])


def test_an_open_loop_is_told_by_its_99th_percentile_and_offered_rate() -> None:
    # Ten queries a second take 1 ms, of twenty the last takes 5 ms.
    queries = [query(n, n * 100 * MS, n * 100 * MS + MS, due=n * 100 * MS) for n in range(19)]
    queries.append(query(19, 1900 * MS, 1905 * MS, due=1900 * MS))
    (headline,) = headlines({"run": "r0", "agent": "a1", "queries": queries})
    assert headline.statistic == "p99"
    assert headline.latency_ns == Estimate(value=5 * MS, low=MS, high=None)
    assert headline.offered_per_s == 10.0
    closed = [query(n, n * MS, (n + 1) * MS) for n in range(20)]
    assert headlines({"run": "r0", "agent": "a1", "queries": closed})[0].offered_per_s is None


def test_one_query_is_told_by_itself_without_an_interval() -> None:
    (headline,) = headlines({"run": "r0", "agent": "a1", "queries": [query(0, 0, 5 * MS)]})
    assert (headline.statistic, headline.queries) == ("median", 1)
    assert headline.latency_ns == Estimate(value=5 * MS)
    assert headline.p90_ns is None
    assert headline.samples_per_s == Estimate(value=200.0)


def test_a_verdict_has_so_many_headlines_and_batches_have_all() -> None:
    runs = [
        {"run": f"r{n}", "agent": "a1", "parameters": {"n": n}, "queries": [query(0, 0, MS)]}
        for n in range(MOST_IN_VERDICT + 1)
    ]
    frames = frames_in({"runs": runs})
    tables = [LATENCY.compute(frames), THROUGHPUT.compute(frames)]
    names = [headline.run for headline in headlines_of(frames.measured, tables)]
    assert names == [f"r{n}" for n in range(MOST_IN_VERDICT)]
    assert len(batch_headlines_of(frames.measured, tables)) == MOST_IN_VERDICT + 1


def test_a_run_that_no_table_has_is_no_headline() -> None:
    frames = frames_in({"runs": [{"run": "r0", "agent": "a1", "queries": [query(0, 0, MS)]}]})
    assert headlines_of(frames.measured, []) == ()
    (headline,) = headlines_of(frames.measured, [LATENCY.compute(frames)])
    assert headline.samples_per_s is None
