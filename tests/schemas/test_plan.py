"""Plans: what agents obey is bounded, and the same in a file as on the wire."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.encoding.codec import decode_body, encode_body, parse
from schemas.encoding.errors import MalformedMessage
from schemas.plan import (
    Build,
    OfflinePlan,
    Plan,
    RunPlan,
    SessionPlan,
    WorkAnswer,
    WorkOrder,
)
from tests.schemas.samples import sample
from tests.schemas.strategies import messages

_SOME = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
_RUN = {"run": "r0", "group": 0, "scenario": "online", "level": "model", "queries": 5}


@given(messages(SessionPlan), st.booleans())
@_SOME
def test_a_session_comes_out_as_it_went_in(session: SessionPlan, is_json: bool) -> None:
    assert decode_body(SessionPlan, encode_body(session, json_text=is_json)) == session


@pytest.mark.parametrize("kind", [OfflinePlan, WorkOrder])
def test_a_plan_in_a_file_is_the_plan(kind: type[OfflinePlan | WorkOrder]) -> None:
    whole = sample(kind)
    assert kind.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        (RunPlan, {**_RUN, "queries": 0}, "queries"),
        (RunPlan, {**_RUN, "level": "deep"}, "level"),
        (RunPlan, {**_RUN, "pacing": "auto"}, "pacing"),
        (SessionPlan, {"session": "s", "agent": "a", "batch_size": 0, "runs": []}, "batch_size"),
        (
            SessionPlan,
            {"session": "s", "agent": "a", "batch_size": 1, "runs": [_RUN, {}]},
            "runs.1.run",
        ),
        (OfflinePlan, {"kind": "model"}, "kind"),
        (WorkAnswer, {"accepted": "perhaps"}, "accepted"),
    ],
)
def test_what_no_agent_can_obey_is_named(kind: Any, value: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(kind, value)
    assert raised.value.field == field


def test_an_order_is_for_a_first_attempt_at_least() -> None:
    order = sample(WorkOrder).model_dump() | {"attempt": 0}
    with pytest.raises(MalformedMessage, match="attempt"):
        parse(WorkOrder, order)


def test_a_session_has_the_build_of_its_own_agent_and_the_rest_of_the_plan() -> None:
    whole: Any = sample(Plan)
    build = Build(framework_version="1.30.0", device="cuda", options={"threads": 4})
    plain = SessionPlan(session="a1-b1", agent="a1", batch_size=1, runs=())
    own = plain.model_copy(update={"session": "a2-b1", "agent": "a2", "build": build})
    plan = whole.model_copy(update={"sessions": (plain, own)})
    assert plan.subject_of("a1-b1") is plan.subject
    assert plan.subject_of("unknown") is plan.subject
    subject = plan.subject_of("a2-b1")
    assert (subject.framework_version, subject.device) == ("1.30.0", "cuda")
    assert (subject.options, subject.framework_manifest) == ({"threads": 4}, None)
    others = {"framework_version", "device", "options", "framework_manifest", "container"}
    others.add("manifest")  # of the whole plan: a session has one framework
    assert subject.model_dump(exclude=others) == plan.subject.model_dump(exclude=others)
