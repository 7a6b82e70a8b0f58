"""Subjects: spelled in one place, legal for any message, found by the filters made for them."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.evaluation import EvaluationCancelled, RunStarted
from schemas.message import Fact
from schemas.subjects import (
    agent_command,
    attempt_batches,
    command_subject,
    decisions_of,
    facts_of,
    manifest_key,
    story_of,
    subject_of,
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
