"""The status of an evaluation's record, and the record of a status."""

import random
from typing import Any

import pytest

from mlscope.evaluation.fold import EvaluationRecord, fold
from mlscope.evaluation.status import (
    awaits_tables,
    is_unmatched,
    model_name,
    record_of,
    status_of,
    unrequested_status,
)
from schemas.evaluation import (
    NO_AGENT_FITS,
    NO_AGENT_KNOWN,
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationRequested,
    RunInterrupted,
)
from schemas.message import Fact
from schemas.request import Evaluate
from schemas.run import RunIncomplete, RunRecorded
from tests.services.scheduler.samples import a_dataset, a_model, a_request, an_agent
from tests.services.scheduler.stories import (
    E,
    Story,
    completed_fact,
    failed_fact,
    stored_fact,
)
from tests.stories import a_run, beginning


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (None, ""),
        (a_request(), "tiny"),
        (a_request(model="tiny:>=1"), "tiny:>=1"),
        (a_request(model=a_model(version="2.0.0")), "tiny:2.0.0"),
    ],
)
def test_a_model_goes_by_the_name_its_request_gives(request_: Evaluate | None, name: str) -> None:
    assert model_name(request_) == name


CUT_OFF = RunRecorded(evaluation=E, run="r0", attempt=1, spans=9, queries=4, outputs=0)
NOTHING = CUT_OFF.model_copy(update={"queries": 0})


@pytest.mark.parametrize(
    ("before", "after", "awaited"),
    [
        ([], [], False),
        (a_run("r0", E)[:1], [], True),
        (a_run("r0", E)[:1], [CUT_OFF], True),
        (a_run("r0", E)[:1], [NOTHING], False),
        (a_run("r0", E)[:2], [], True),
        (a_run("r0", E), [EvaluationAnalyzed(evaluation=E, tables=("latency",))], False),
    ],
    ids=["nothing begun", "not counted", "cut off", "no rows", "complete", "analyzed"],
)
def test_a_cancelled_evaluation_awaits_tables_while_it_has_rows_or_may_have(
    before: list[Fact], after: list[Fact], awaited: bool
) -> None:
    assert not awaits_tables(status_of(fold([*beginning(E), *before])))
    story = [*beginning(E), *before, EvaluationCancelled(evaluation=E), *after]
    assert awaits_tables(status_of(fold(story))) == awaited


def started(**wanted: Any) -> Story:
    """Return an evaluation whose first run was started, of two."""
    story = Story(random.Random(1))
    story.agents["a1"] = an_agent("a1")
    request = a_request(scenarios=["online", "batched"], batch_sizes=[2], **wanted)
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=5))
    story.settle()
    return story


def test_a_status_tells_every_run_and_a_list_none() -> None:
    state = started().state
    status = status_of(state, "here")
    assert [(run.run, run.state, run.batch_size) for run in status.runs] == [
        ("b2-online-model", "started", 2),
        ("b2-batched-model", "planned", 2),
    ]
    short = status_of(state, "here", runs=False)
    assert (short.runs, short.request, short.agents) == ((), None, ("a1",))
    assert (short.state, short.address, short.requested_ns) == ("running", "here", 5)
    assert short.extent is not None
    assert short.extent.scenarios == ("online", "batched")
    assert short.extent.batch_sizes == (2,)


def test_what_was_planned_is_told_without_what_the_request_sent() -> None:
    known = status_of(started().state, "").subject
    assert known is not None
    assert (known.model, known.dataset) == (a_model(), a_dataset())
    assert status_of(started().state, "", runs=False).subject is None
    state = started(dataset=a_dataset("sent")).state
    sent = status_of(state, "").subject
    assert sent is not None
    assert (sent.dataset.name, sent.dataset.synthetic) == ("sent", None)
    assert state.plan is not None
    assert state.plan.subject.dataset == a_dataset("sent")


def test_counts_are_the_agents_until_the_collector_has_counted() -> None:
    story = started()
    run = story.state.runs["b2-online-model"]
    told = completed_fact(run, 1, story.dice)
    tally = {"queries": 7, "spans": 9, "failed_queries": 1}
    story.say(type(told).model_validate(told.model_dump() | {"tally": tally}))
    shown = status_of(story.state, "").runs[0]
    assert (shown.answered, shown.spans, shown.failed_queries) == (6, 9, 1)
    story.say(stored_fact(run, 1, story.dice))
    shown = status_of(story.state, "").runs[0]
    assert (shown.answered, shown.spans, shown.failed_queries) == (1, 1, 1)


def test_what_a_cancelled_run_had_measured_is_counted_after_the_end() -> None:
    story = started()
    run = story.state.runs["b2-online-model"]
    story.cancel()
    decided = story.state.decided
    told = failed_fact(run, 1, story.dice)
    tally = {"queries": 7, "spans": 9, "failed_queries": 1}
    story.say(type(told).model_validate(told.model_dump() | {"tally": tally}))
    shown = status_of(story.state, "").runs[0]
    assert (shown.state, shown.answered, shown.spans) == ("cancelled", 6, 9)
    story.say(stored_fact(run, 1, story.dice))
    shown = status_of(story.state, "").runs[0]
    assert (shown.state, shown.answered, shown.spans) == ("cancelled", 1, 1)
    assert (story.state.state, story.state.decided) == ("cancelled", decided)


def test_an_interrupted_run_counts_what_its_agent_says_later() -> None:
    story = started()
    run = story.state.runs["b2-online-model"]
    lost = {"attempt": 1, "agent": "a1", "cause": "lost"}
    story.say(RunInterrupted(evaluation=E, run="b2-online-model", **lost))
    told = failed_fact(run, 1, story.dice)
    story.say(type(told).model_validate(told.model_dump() | {"tally": {"queries": 7, "spans": 9}}))
    shown = status_of(story.state, "").runs[0]
    assert (shown.state, shown.answered, shown.spans) == ("interrupted", 7, 9)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_interrupted_run_whose_agent_is_silent_shows_what_is_stored(is_cancelled: bool) -> None:
    story = started()
    if is_cancelled:
        story.cancel()
    else:
        lost = {"attempt": 1, "agent": "a1", "cause": "lost"}
        story.say(RunInterrupted(evaluation=E, run="b2-online-model", **lost))
    counts = {"spans": 9, "queries": 7, "outputs": 0, "failed_queries": 2}
    batches = {"announced_batches": 0, "stored_batches": 3}
    about = {"evaluation": E, "run": "b2-online-model", "attempt": 1}
    story.say(RunIncomplete.model_validate(about | counts | batches))
    shown = status_of(story.state, "").runs[0]
    assert shown.state == ("cancelled" if is_cancelled else "interrupted")
    assert (shown.answered, shown.failed_queries, shown.spans) == (5, 2, 9)


def test_cancelled_runs_are_shown_as_such_unless_they_were_over() -> None:
    story = started()
    story.say(completed_fact(story.state.runs["b2-online-model"], 1, story.dice))
    story.cancel()
    assert [run.state for run in status_of(story.state, "").runs] == ["ended", "cancelled"]


def test_a_status_turns_back_into_the_record_it_was_made_of() -> None:
    story = started()
    story.say(completed_fact(story.state.runs["b2-online-model"], 1, story.dice))
    record = fold(recorded.fact for recorded in story.log)
    assert record_of(status_of(record, "here")) == record


def test_counts_of_an_older_scheduler_are_those_its_agent_announced() -> None:
    story = started()
    story.say(completed_fact(story.state.runs["b2-online-model"], 1, story.dice))
    status = status_of(story.state)
    run = status.runs[0].model_copy(
        update={"announced": None, "answered": 6, "failed_queries": 1, "spans": 9}
    )
    old = status.model_copy(update={"runs": (run, *status.runs[1:])})
    shown = status_of(record_of(old)).runs[0]
    assert (shown.answered, shown.spans, shown.failed_queries) == (6, 9, 1)


@pytest.mark.parametrize(
    ("state", "cause", "is_so"),
    [
        ("failed", NO_AGENT_FITS, True),
        ("failed", NO_AGENT_KNOWN, True),
        ("failed", "predict: x", False),
        ("cancelled", NO_AGENT_FITS, False),
    ],
)
def test_an_evaluation_that_no_agent_could_run_is_unmatched(
    state: Any, cause: str, is_so: bool
) -> None:
    status = unrequested_status(E).model_copy(update={"state": state, "cause": cause})
    assert is_unmatched(status) is is_so


def test_a_status_tells_who_asked_for_what_and_where_it_runs() -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1")})
    request = a_request(labels={"team": "vision"}, visibility="private", levels=["model", "full"])
    asked = EvaluationRequested(evaluation=E, request=request, requested_ns=5, requested_by="ada")
    story.say(asked)
    status = status_of(story.state, "here")
    assert (status.requested_by, status.visibility) == ("ada", "private")
    assert status.labels == {"team": "vision"}
    assert (status.framework, status.device) == ("", "")
    assert status.extent is not None
    assert status.extent.levels == ("model", "full")


def test_a_status_before_the_request_is_empty() -> None:
    assert status_of(EvaluationRecord(evaluation=E)) == unrequested_status(E)
    assert status_of(started().state).framework == "onnxruntime 1.31.1"


def test_counts_that_the_collector_stored_are_not_taken_for_the_agents() -> None:
    story = started()
    story.say(stored_fact(story.state.runs["b2-online-model"], 1, story.dice))
    record = record_of(status_of(story.state))
    assert record.runs["b2-online-model"].announced is None
