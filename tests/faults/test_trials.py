"""A trial of each kind: nothing is lost, nothing doubled, and the record tells the true cause.

They are brief; `make test-faults` performs 500, with faults that last.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults import results
from tests.faults.causes import TRUE_OF, causes_of, false_causes
from tests.faults.outcomes import answers_unlike
from tests.faults.performing import Result, perform, why_skipped
from tests.faults.trials import BROKERS, KINDS, LOADS, SERVERS, SERVICES, Blow, trial
from tests.faults.worlds import Content, Worlds


@pytest.mark.faults
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_nothing_is_lost_doubled_or_told_falsely(worlds: Worlds, seed: int) -> None:
    planned = trial(seed, is_brief=True)
    if reason := why_skipped(worlds, planned):
        pytest.skip(reason)
    result = perform(worlds, planned)
    if result.wrong:
        worlds.end(planned.world)
    assert not result.wrong, result


def test_a_cluster_that_does_not_start_skips_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails its trial, and the next ones go on."""

    def does_not_start(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Worlds, "world", does_not_start)
    spoilt = next(trial(seed) for seed in range(len(KINDS)) if trial(seed).needs_disks)
    worlds = Worlds()
    assert why_skipped(worlds, spoilt) == ""
    assert perform(worlds, spoilt).wrong == ["AssertionError: "]
    worlds.end(spoilt.world)


def test_every_kind_comes_in_every_round() -> None:
    trials = [trial(seed) for seed in range(500)]
    assert trials == [trial(seed) for seed in range(500)]
    assert {one.kind for one in trials[: len(KINDS)]} == set(KINDS)
    assert set(Counter(one.kind for one in trials).values()) == {41, 42}
    assert {one.load for one in trials} == set(LOADS)


def test_500_trials_strike_everything_in_every_way() -> None:
    blows = {blow for seed in range(500) for blow in trial(seed).blows}
    processes = {*SERVICES, *SERVERS["one"], *SERVERS["three"]}
    assert {blow.victim for blow in blows if blow.act == "kill"} == {*processes, "worker"}
    assert {blow.victim for blow in blows if blow.act == "stop"} == {*processes, "worker"}
    assert {blow.victim for blow in blows if blow.act == "cut"} == {"agent", *BROKERS}
    assert {blow.victim for blow in blows if blow.act == "cut from peers"} == set(BROKERS)
    assert {blow.victim for blow in blows if blow.act == "full"} == {"nats", "postgres"}
    assert {blow.victim for blow in blows if blow.act == "read-only"} == {"nats", "postgres"}
    steps_ns = {blow.step_ns for blow in blows if blow.act == "clock"}
    assert len(steps_ns) == 6
    assert steps_ns == {-step_ns for step_ns in steps_ns}
    assert all(trial(seed).hold_s == 20 for seed in range(500) if trial(seed).kind == "stop")


@pytest.mark.parametrize("victim", ["postgres", "collector", "analyzer", "gateway", "registry"])
def test_what_only_waits_for_another_is_no_cause_of_an_end(victim: str) -> None:
    said = [
        "agent only was lost",
        "the issuer of its load was lost",
        "the wall clock moved by 3 ms",
    ]
    assert false_causes([Blow("kill", victim)], said) == said


def test_a_cause_counts_as_true_only_for_what_can_have_it() -> None:
    lost, issuer = "agent only was lost", "the issuer of its load was lost"
    stepped = "the wall clock moved by -3600000.0 ms"
    assert false_causes([Blow("kill", "agent")], [lost, issuer]) == [issuer]
    assert false_causes([Blow("kill", "scheduler")], [lost, issuer]) == [lost]
    assert false_causes([Blow("clock", "cluster", 1)], [lost, stepped]) == [lost]
    assert false_causes([Blow("cut", "agent")], [lost, stepped]) == [stepped]
    assert false_causes([Blow("kill", "agent"), Blow("stop", "scheduler")], [lost, issuer]) == []
    unfinished = "time-out: the agent did not end it"
    every_blow = [blow for seed in range(500) for blow in trial(seed).blows]
    assert false_causes(every_blow, [unfinished]) == [unfinished]
    assert all(causes_of(blow) in TRUE_OF.values() or blow.act == "cut" for blow in every_blow)


def test_a_sample_has_a_later_answer_where_its_first_query_was_lost() -> None:
    expected = Content({}, {0: [(0, "a")], 1: [(1, "b")]})
    later, other = ({0: [(2, text)], 1: [(1, "b")]} for text in "ac")
    assert answers_unlike(Content({}, later), expected, {0}) == {}
    assert answers_unlike(Content({}, later), expected, set()) == {0: [(2, "a")]}
    assert answers_unlike(Content({}, other), expected, {0}) == {0: [(2, "c")]}
    assert answers_unlike(Content({}, {1: [(1, "b")]}), expected, {0}) == {}
    assert answers_unlike(Content({}, {1: [(1, "b")]}), expected, {2}) == {0: []}


def test_a_second_call_goes_on_and_tries_again_what_failed(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert results.to_do(range(3), results.read(file)) == [0, 1, 2]
    results.append(file, Result(trial(0), took_s=4.0))
    results.append(file, Result(trial(1), wrong=["a row is lost"], attempts=2, took_s=6.0))
    with file.open("a") as cut_short:
        cut_short.write('{"seed": 2, "ki')
    lines = results.read(file)
    assert results.to_do(range(3), lines) == [1, 2]
    table = [row.split() for row in results.summary(lines.values()).splitlines()]
    assert {tuple(row[-4:]) for row in table[1:]} == {
        ("1", "0", "0", "4.0"),
        ("1", "1", "1", "6.0"),
    }
