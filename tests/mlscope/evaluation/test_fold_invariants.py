"""What holds of an evaluation's record after any facts in any order, also of strangers."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlscope.evaluation.fold import EvaluationRecord, evolve, fold
from mlscope.evaluation.run import RunRecord
from mlscope.evaluation.status import record_of, status_of
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Fact
from schemas.request import AgentReason
from schemas.run import (
    ClockOrigin,
    Conditions,
    RunCompleted,
    RunFailed,
    RunIncomplete,
    RunRecorded,
    Tally,
)
from tests.stories import E, a_plan, beginning

_RUNS, _AGENTS = st.sampled_from(["r0", "r1", "r9"]), st.sampled_from(["a1", "a2"])
_ATTEMPTS, _COUNTS = st.integers(1, 3), st.integers(0, 9)
_ORIGIN = ClockOrigin(monotonic_ns=0, epoch_start_ns=0)


@st.composite
def run_facts(draw: st.DrawFn) -> Fact:
    """Draw a fact about a run: known or not, of any attempt, by any agent."""
    run, attempt, agent = draw(_RUNS), draw(_ATTEMPTS), draw(_AGENTS)
    whose = {"evaluation": E, "run": run, "attempt": attempt}
    by = whose | {"agent": agent}
    counts = {"spans": draw(_COUNTS), "queries": draw(_COUNTS), "outputs": 0}
    stored = {"announced_batches": draw(st.sampled_from([0, 5])), "stored_batches": 2}
    tally = Tally(spans=counts["spans"], queries=counts["queries"])
    error = draw(st.sampled_from(["worker_died", "predict"]))
    facts: dict[type[Fact], dict[str, Any]] = {
        RunStarted: by | {"session": "s0", "started_ns": 1},
        RunInterrupted: by | {"cause": "lost", "final": draw(st.booleans())},
        RunCompleted: by | {"tally": tally, "origin": _ORIGIN, "conditions": Conditions()},
        RunFailed: by | {"error": error, "message": "x", "tally": tally},
        RunRecorded: whose | counts,
        RunIncomplete: whose | counts | stored,
    }
    kind = draw(st.sampled_from(list(facts)))
    return kind.model_validate(facts[kind])


def _evaluation_facts() -> st.SearchStrategy[Fact]:
    reason = AgentReason(agent="a1", reason="busy")
    return st.sampled_from(
        [
            *beginning(),
            EvaluationPostponed(evaluation=E, agents=(reason,), until_ns=7),
            EvaluationPlanned(evaluation=E, plan=a_plan(3), revision=1),
            EvaluationMeasured(evaluation=E, runs=()),
            EvaluationAnalyzed(evaluation=E, tables=("latency",)),
            EvaluationFailed(evaluation=E, cause="no agent fits", agents=(reason,)),
            EvaluationCancelled(evaluation=E, reason="enough"),
        ]
    )


#: mostly facts about runs: the others end an evaluation soon
FACTS = st.one_of(run_facts(), run_facts(), run_facts(), run_facts(), _evaluation_facts())
STORIES = st.lists(FACTS, max_size=20).map(lambda facts: [*beginning(), *facts])


@given(STORIES, FACTS)
def test_a_fact_changes_a_record_once(story: list[Fact], fact: Fact) -> None:
    after = evolve(fold(story), fact)
    assert evolve(after, fact) is after


@given(STORIES, st.integers(0, 22))
def test_a_watcher_may_begin_with_the_status_of_any_moment(story: list[Fact], seen: int) -> None:
    begun = record_of(status_of(fold(story[: seen + 1])))
    assert begun == fold(story[: seen + 1])
    assert fold(story[seen + 1 :], begun) == fold(story)


@given(STORIES, FACTS)
def test_an_ended_evaluation_changes_only_in_its_row_counts(story: list[Fact], fact: Fact) -> None:
    record = fold([*story, EvaluationCancelled(evaluation=E)])
    after = evolve(record, fact)
    assert record.is_ended
    # The tables of its complete runs come later.
    after = replace(after, tables=record.tables, headlines=record.headlines)
    assert _without_counts(after) == _without_counts(record)


def _without_counts(record: EvaluationRecord) -> object:
    kept = {"announced", "stored", "spans", "answered", "failed_queries"}
    return status_of(record).model_dump(exclude={"runs": {"__all__": kept}})


@given(STORIES)
def test_every_run_is_in_a_state_that_its_facts_explain(story: list[Fact]) -> None:
    record = fold(story)
    for run in record.runs.values():
        assert _is_explained(run, is_counted_late=record.is_ended), run
        starts = [fact.attempt for fact in story if isinstance(fact, RunStarted)]
        assert run.attempt in (0, *starts)
    if record.state == "cancelled":
        assert not {run.state for run in record.runs.values()} & {"planned", "started"}


def _is_explained(run: RunRecord, *, is_counted_late: bool) -> bool:
    """Tell whether a run's state goes with what its agent and the collector reported.

    Its evaluation may have ended before its rows were counted; the counts still change then.
    """
    match run.state:
        case "planned":
            return run.attempt == 0 and not run.outcome
        case "started":
            is_counted = run.announced is not None and not is_counted_late
            return not (run.outcome or run.cause or run.is_final or is_counted)
        case "ended":
            return run.outcome == "completed" and run.announced is not None
        case "recorded" | "incomplete":
            return run.outcome == "completed" and None not in (run.announced, run.stored)
        case "failed":
            return run.cause == f"{run.outcome}: x" and not run.is_final
        case "interrupted":
            return run.cause == "lost"
        case _:
            return run.attempt == 0 or run.outcome != "completed"


@given(STORIES)
def test_the_newest_start_says_who_works_on_a_run(story: list[Fact]) -> None:
    before = EvaluationRecord()
    for fact in story:
        after = evolve(before, fact)
        for name, run in after.runs.items():
            earlier = before.runs.get(name)
            is_restarted = earlier is not None and run.attempt > earlier.attempt
            assert is_restarted == (earlier is not None and run.attempt != earlier.attempt)
            if is_restarted:
                assert isinstance(fact, RunStarted)
                assert (run.agent, run.state) == (fact.agent, "started")
                assert (run.announced, run.stored, run.cause) == (None, None, "")
        before = after
