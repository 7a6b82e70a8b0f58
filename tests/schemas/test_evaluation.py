"""The scheduler's decisions: small, under one evaluation, and without loss on the wire."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import evaluation
from schemas.encoding.codec import decode, encode, parse
from schemas.encoding.errors import MalformedMessage
from schemas.encoding.message_index import FACTS
from schemas.evaluation import EvaluationMeasured, RunInterrupted, RunStarted
from schemas.message import Envelope
from schemas.subjects import decisions_of, subject_of
from tests.schemas.samples import sample
from tests.schemas.strategies import messages

_SOME = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
_DECISIONS = [kind for kind in FACTS.values() if kind.__module__ == evaluation.__name__]


@pytest.mark.parametrize("kind", _DECISIONS)
def test_a_decision_is_in_its_evaluation_s_log(kind: type[RunStarted]) -> None:
    fact = sample(kind)
    assert kind.entity == "evaluation"
    assert subject_of(fact).startswith(decisions_of(fact.evaluation).removesuffix(">"))


@given(st.one_of(messages(EvaluationMeasured), messages(RunInterrupted)))
@_SOME
def test_a_decision_comes_out_as_it_went_in(fact: EvaluationMeasured | RunInterrupted) -> None:
    assert decode(encode(Envelope.around(fact, id="1", cause="0", time_ns=5)))[1] == fact


def test_a_run_that_ended_otherwise_is_no_measured_run() -> None:
    run = {"run": "r0", "attempt": 1, "end": "vanished", "agent": "a1"}
    with pytest.raises(MalformedMessage) as raised:
        parse(EvaluationMeasured, {"evaluation": "e1", "runs": [run]})
    assert raised.value.field == "runs.0.end"
