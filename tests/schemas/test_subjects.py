"""Subjects: spelled in one place, legal for any message, found by the filters made for them."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.evaluation import EvaluationCancelled, RunStarted
from schemas.live.resources import ResourcesUsed
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Fact
from schemas.people import ROLES, THE_USER, Asker
from schemas.run import RunCompleted, RunIncomplete, RunRecorded
from schemas.subjects import (
    AGENT_FACTS,
    REQUEST,
    agent_command,
    agent_of,
    asked_by_people,
    asked_subject,
    asker_of,
    attempt_batches,
    command_subject,
    decisions_of,
    facts_of,
    join_subject,
    manifest_key,
    place_of,
    recorded_runs,
    resources_subject,
    retry_subject,
    story_of,
    subject_of,
    watch_subject,
)
from tests.schemas.samples import sample

_SOME = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
_LEGAL = re.compile(r"mlscope\.v1(\.[A-Za-z0-9_-]+)+")


def matches(pattern: str, subject: str) -> bool:
    """Tell whether a NATS filter lets a subject through."""
    parts = [
        r".+" if p == ">" else r"[^.]+" if p == "*" else re.escape(p) for p in pattern.split(".")
    ]
    return re.fullmatch(r"\.".join(parts), subject) is not None


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_has_a_legal_subject_with_its_name_in_it(name: str) -> None:
    fact: Fact = sample(FACTS[name])
    subject = subject_of(fact)
    assert _LEGAL.fullmatch(subject)
    assert subject.split(".")[2] == fact.entity
    assert fact.happened in subject.split(".")[3:]
    assert matches(facts_of(type(fact)), subject)


@pytest.mark.parametrize(
    "name", [n for n, kind in FACTS.items() if "evaluation" in kind.model_fields]
)
def test_one_evaluation_s_story_is_one_filter(name: str) -> None:
    fact: Any = sample(FACTS[name])
    assert matches(story_of(fact.evaluation), subject_of(fact))
    assert not matches(story_of("another"), subject_of(fact))
    assert matches(decisions_of(fact.evaluation), subject_of(fact)) == (fact.entity == "evaluation")


@pytest.mark.parametrize("name", ["trace.captured", "query.answered", "output.predicted"])
def test_a_run_s_batches_are_one_filter(name: str) -> None:
    fact: Any = sample(FACTS[name])
    assert matches(attempt_batches(fact.entity, fact.evaluation, fact.run), subject_of(fact))


@pytest.mark.parametrize("name", FACTS)
def test_whose_a_fact_is_follows_from_its_subject(name: str) -> None:
    fact: Any = sample(FACTS[name])
    expected = fact.agent if type(fact) in AGENT_FACTS else ""
    assert agent_of(subject_of(fact)) == expected


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "run",
        "mlscope.v1.run.e1.r1.recorded",
        "mlscope.v1.evaluation.e1.r1.started.a1",
        "mlscope.v1.trace.e1.r1.imagined.a1",
        "mlscope.v1.trace.e1.captured.a1",
        "mlscope.v1.agent.a1.lost",
        "mlscope.v1.dead.agent.buried",
    ],
)
def test_other_subjects_are_no_agent_s(subject: str) -> None:
    assert agent_of(subject) == ""


def test_subjects_read_as_documented() -> None:
    cancelled = EvaluationCancelled(evaluation="e1")
    assert subject_of(cancelled) == "mlscope.v1.evaluation.e1.cancelled"
    started: Any = sample(RunStarted)
    assert subject_of(started).endswith(f".{started.run}.started.{started.agent}")
    assert agent_command("a1", "stop") == "mlscope.v1.request.agent.a1.stop"
    assert {command_subject(kind) for kind in COMMANDS.values()} == {
        f"mlscope.v1.request.{verb}" for verb in COMMANDS
    }


@given(*(st.text(max_size=30) for _ in range(3)))
@_SOME
def test_any_manifest_has_a_key(kind: str, name: str, version: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", manifest_key(kind, name, version))
    assert manifest_key("model", name, version) != manifest_key("dataset", name, version)


_ASKERS = st.builds(
    Asker,
    st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
    st.sampled_from(ROLES),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)


@given(_ASKERS, st.sampled_from(sorted(COMMANDS)))
def test_a_person_is_read_from_the_subject_that_the_server_wrote(asker: Asker, verb: str) -> None:
    subject = asked_subject(asker, verb)
    assert asker_of(subject) == asker
    assert matches(asked_by_people(verb), subject)
    assert not matches(asked_by_people("another"), subject)
    assert not matches(f"{REQUEST}.>", subject)


def test_who_is_on_no_subject_of_people_is_the_clusters_user() -> None:
    for subject in (f"{REQUEST}.evaluate", f"{REQUEST}.agent.a1.stop", "asked.ada.owner.0.0.x"):
        assert asker_of(subject) == THE_USER


@pytest.mark.parametrize(
    "end",
    ["ada.owner.0.0", "ada.owner.0.0.x.y", "ada.king.0.0.x", "ada.own.0.0.x", "ada.owner.a.0.x"],
)
def test_a_subject_of_people_that_nobody_writes_is_no_person(end: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        asker_of(f"mlscope.v1.asked.{end}")


def test_other_subjects_read_as_documented() -> None:
    used = ResourcesUsed(evaluation="e1", run="r0", attempt=1, agent="a1")
    assert resources_subject(used) == "mlscope.v1.resources.e1.r0.used.a1"
    assert watch_subject("e1", "spans") == "mlscope.v1.watch.e1.spans"
    assert join_subject("a1") == "mlscope.v1.request.join.a1"
    assert retry_subject("spans") == "mlscope.v1.request.retry.spans"
    ada = Asker("ada", "viewer", 2, 5)
    assert asked_subject(ada, "match") == "mlscope.v1.asked.ada.viewer.2.5.match"


def test_recorded_runs_are_those_of_every_evaluation_and_no_other_fact_of_a_run() -> None:
    for kind in (RunRecorded, RunIncomplete, RunCompleted):
        fact: Any = sample(kind)
        assert matches(recorded_runs(), subject_of(fact)) == (kind is RunRecorded)


def test_a_manifest_is_withdrawn_on_the_subject_of_its_own_token() -> None:
    published: Any = sample(ManifestPublished)
    manifest = published.manifest
    token = manifest_key(manifest.kind, manifest.name, manifest.version)
    assert subject_of(published) == f"mlscope.v1.manifest.{token}.published"
    withdrawn = ManifestWithdrawn(kind=manifest.kind, name=manifest.name, version=manifest.version)
    assert subject_of(withdrawn) == f"mlscope.v1.manifest.{token}.withdrawn"


@pytest.mark.parametrize("kind", FACTS.values(), ids=FACTS)
def test_a_subject_says_of_which_evaluation_and_run_it_is(kind: type[Fact]) -> None:
    fact = sample(kind)
    own = {name: getattr(fact, name) for name in ("evaluation", "run") if hasattr(fact, name)}
    assert place_of(subject_of(fact)) == own


@pytest.mark.parametrize("subject", ["", "mlscope.v1.run.e1", "$KV.leases.a", "a.b.c.d"])
def test_what_is_of_no_evaluation_names_none(subject: str) -> None:
    assert place_of(subject) == {}
