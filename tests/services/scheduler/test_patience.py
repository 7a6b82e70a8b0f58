"""Neighbours that never say their word: what is waited for, and for how long."""

import random
from dataclasses import replace
from typing import Any

import pytest

from schemas.analysis import AnalysisCompleted, AnalysisFailed, Headline
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationRequested,
    RunInterrupted,
    RunIssued,
    RunStarted,
)
from schemas.run import RunFailed
from services.scheduler.evaluation.attempts import S_NS, decide_broken
from services.scheduler.evaluation.decide import decide, decide_cancel, is_slow
from services.scheduler.evaluation.state import Run
from services.scheduler.placement.fleet import Fleet, Limits
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact

WAITS = Limits(recording_wait_s=900, analysis_wait_s=1800)


def asked(**request: Any) -> Story:
    """Return an evaluation that was just requested, for one agent."""
    story = Story(random.Random(1), agents={"a1": an_agent("a1")})
    story.say(EvaluationRequested(evaluation=E, request=a_request(**request), requested_ns=0))
    return story


def begun(**request: Any) -> Story:
    """Return an evaluation whose first run was just started."""
    story = asked(**request)
    story.settle()
    return story


def completed(*scenarios: str) -> Story:
    """Return an evaluation whose runs have all completed, none recorded."""
    story = asked(scenarios=list(scenarios))
    while story.settle():
        for run in story.state.runs.values():
            if run.is_under_way:
                story.say(completed_fact(run, run.attempt, story.dice))
    return story


def follows(story: Story, after_s: float) -> list[Any]:
    """Return what is decided so long after the last word."""
    return decide(story.state, story.now_ns + int(after_s * S_NS), _patient(story))


def _patient(story: Story) -> Fleet:
    return replace(story.fleet(), limits=WAITS)


def first(story: Story) -> Run:
    return next(iter(story.state.runs.values()))


def test_a_collector_that_never_speaks_fails_the_evaluation_in_the_end() -> None:
    story = completed("online")
    assert follows(story, 899) == []
    [failed] = follows(story, 900)
    assert isinstance(failed, EvaluationFailed)
    assert failed.cause == "the collector did not report on it for 900 s"


def test_a_run_the_collector_forgot_is_named_beside_those_it_recorded() -> None:
    story = completed("online", "batched")
    story.say(stored_fact(first(story), 1, story.dice))
    assert follows(story, 899) == []
    [measured] = follows(story, 900)
    assert isinstance(measured, EvaluationMeasured)
    assert [run.end for run in measured.runs] == ["completed", "incomplete"]
    assert [bool(run.cause) for run in measured.runs] == [False, True]


def test_an_analyzer_that_never_speaks_fails_the_evaluation_in_the_end() -> None:
    story = completed("online")
    story.say(stored_fact(first(story), 1, story.dice))
    story.settle()
    assert story.state.state == "measured"
    assert follows(story, 1799) == []
    [failed] = follows(story, 1800)
    assert failed.cause == "analysis failed: the analyzer did not report for 1800 s"


def test_a_failed_runs_rows_are_waited_for_less_long() -> None:
    story = begun()
    about = {"evaluation": E, "run": first(story).plan.run, "attempt": 1, "agent": "a1"}
    story.say(RunFailed.model_validate(about | {"error": "predict", "message": "x"}))
    assert follows(story, 179) == []
    [failed] = follows(story, 180)
    assert (type(failed), failed.cause) == (EvaluationFailed, "predict: x")


def test_runs_of_a_group_share_their_time() -> None:
    """They take turns in one session, so each may take the time-outs of all, and no others'."""
    story = begun(scenarios=["online", "batched"], trace_level="framework", run_timeout_s=10)
    grace_s = WAITS.run_grace_s
    assert follows(story, 2 * 10 + grace_s - 1) == []
    ended = follows(story, 2 * 10 + grace_s)
    assert [fact.run for fact in ended] == ["b1-online-model", "b1-online-framework"]
    assert {(fact.final, fact.cause) for fact in ended} == {
        (True, "time-out: the agent did not end it")
    }


def test_a_run_that_completed_is_not_started_again_with_its_group() -> None:
    story = begun(scenarios=["online"], trace_level="framework")
    quick, slow = list(story.state.runs)
    for attempt in (1, 2):
        _die(story, slow, attempt)
        if attempt == 1:
            story.say(completed_fact(story.state.runs[quick], 1, story.dice))
        story.settle()
    assert [story.state.runs[run].attempt for run in (quick, slow)] == [1, 3]


def test_a_run_that_failed_before_the_others_waits_for_them() -> None:
    story = begun(scenarios=["online"], trace_level="framework")
    quick, slow = list(story.state.runs)
    _die(story, quick, 1)
    assert follows(story, 1) == [], "the other run of its group is under way"
    _die(story, slow, 1)
    story.settle()
    assert {run.attempt for run in story.state.runs.values()} == {2}


def test_waiting_for_another_agent_begins_when_the_last_one_is_lost() -> None:
    story = begun()
    story.now_ns = 100 * S_NS
    story.agents["a1"] = an_agent("a1", state="lost")
    story.settle()
    assert first(story).state == "interrupted"
    assert follows(story, WAITS.agent_grace_s - 1) == []
    [given_up] = follows(story, WAITS.agent_grace_s)
    assert (given_up.final, given_up.cause) == (True, "agent a1 was lost; no other agent fits")


def test_a_young_claim_is_not_judged_by_its_issuers_lease() -> None:
    story = begun(scenarios=["poisson"])
    story.now_ns = 100 * S_NS
    about = {"evaluation": E, "run": first(story).plan.run, "attempt": 1}
    story.say(RunIssued.model_validate(about | {"issuer": "s9"}))
    assert follows(story, WAITS.lease_ttl_s - 1) == []
    [interrupted] = follows(story, WAITS.lease_ttl_s)
    assert interrupted.cause == "the issuer of its load was lost"
    assert not interrupted.final


@pytest.mark.parametrize(("breaks", "agent"), [(1, "a1"), (2, "a2")])
def test_an_agent_that_breaks_attempts_off_gives_way_even_to_a_busier_one(
    breaks: int, agent: str
) -> None:
    story = begun()
    for number in range(breaks):
        if number:
            story.settle()
        run = first(story).plan.run
        for fact in decide_broken(story.state, [run], number + 1, "why", WAITS):
            story.say(fact)
    story.agents["a2"] = an_agent("a2")
    fleet = replace(_patient(story), loads={"a2": 7})
    [started] = decide(story.state, story.now_ns, fleet)
    assert isinstance(started, RunStarted)
    assert (started.agent, started.attempt) == (agent, breaks + 1)


def _die(story: Story, run: str, attempt: int) -> None:
    about = {"evaluation": E, "run": run, "attempt": attempt, "agent": "a1"}
    story.say(RunFailed.model_validate(about | {"error": "worker_died", "message": "x"}))


@pytest.mark.parametrize(("wait_s", "until_s"), [(1, 1), (0, WAITS.agent_grace_s), (90, 90)])
def test_an_evaluation_waits_for_an_agent_as_long_as_it_says(wait_s: int, until_s: float) -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1", runtimes=())})
    request = a_request(scenarios=["online"], wait_s=wait_s)
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    [postponed] = follows(story, 0)
    assert postponed.until_ns == until_s * S_NS
    story.say(postponed)
    assert follows(story, until_s - 0.5) == []
    assert follows(story, until_s)[0].cause == "no agent fits"


def test_who_waited_in_vain_is_told_what_each_agent_lacked() -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1", runtimes=())})
    story.say(EvaluationRequested(evaluation=E, request=a_request(wait_s=1), requested_ns=0))
    [postponed] = follows(story, 0)
    [failed] = follows(story, 1)
    assert [reason.agent for reason in failed.agents] == ["a1"]
    assert failed.agents == postponed.agents
    story.agents.clear()
    catalog = _patient(story).catalog.model_copy(update={"agents": ()})
    facts: list[Any] = decide(story.state, S_NS, replace(_patient(story), catalog=catalog))
    assert [(fact.cause, fact.agents) for fact in facts] == [("no agent is known", ())]


def measured() -> Story:
    """Return an evaluation whose only run is recorded, before its analysis."""
    story = completed("online")
    story.say(stored_fact(first(story), 1, story.dice))
    story.settle()
    assert story.state.state == "measured"
    return story


def test_what_the_analyzer_says_ends_the_evaluation() -> None:
    story = measured()
    figures = Headline(run="b1-online-model", agent="a1", scenario="online", batch_size=1)
    story.say(AnalysisCompleted(evaluation=E, tables=("latency",), headlines=(figures,)))
    [analyzed] = follows(story, 0)
    assert isinstance(analyzed, EvaluationAnalyzed)
    assert (analyzed.tables, analyzed.headlines) == (("latency",), (figures,))
    broken = measured()
    broken.say(AnalysisFailed(evaluation=E, cause="no rows"))
    [failed] = follows(broken, 0)
    assert (type(failed), failed.cause) == (EvaluationFailed, "analysis failed: no rows")


def test_an_analysis_before_the_end_of_measuring_is_not_this_ones() -> None:
    story = completed("online")
    story.say(AnalysisFailed(evaluation=E, cause="no rows"))
    story.say(AnalysisCompleted(evaluation=E, tables=("latency",)))
    story.say(stored_fact(first(story), 1, story.dice))
    story.settle()
    assert (story.state.state, follows(story, 0)) == ("measured", [])


def test_only_planning_takes_long() -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1")})
    assert not is_slow(story.state)
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    assert is_slow(story.state)
    story.settle()
    assert not is_slow(story.state)
    waiting = Story(random.Random(1))
    waiting.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    waiting.cancel()
    assert not is_slow(waiting.state)


@pytest.mark.parametrize(("reason", "cause"), [("enough", "cancelled: enough"), ("", "cancelled")])
def test_a_cancellation_ends_the_runs_under_way_for_good(reason: str, cause: str) -> None:
    story = begun(scenarios=["online", "batched"])
    interrupted, cancelled = decide_cancel(story.state, reason, "ada")
    assert isinstance(interrupted, RunInterrupted)
    assert isinstance(cancelled, EvaluationCancelled)
    assert (interrupted.run, interrupted.attempt) == ("b1-online-model", 1)
    assert (interrupted.cause, interrupted.final) == (cause, True)
    assert (cancelled.reason, cancelled.cancelled_by) == (reason, "ada")
