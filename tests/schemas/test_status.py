"""Where things stand: states are words of the contract, lists leave runs out."""

from typing import Any

import pytest

from schemas.encoding.codec import decode_body, encode_body, parse
from schemas.encoding.errors import MalformedMessage
from schemas.status import Catalog, EvaluationList, EvaluationStatus, RunStatus
from tests.schemas.samples import sample

_STATUS = {"evaluation": "e1", "state": "running", "model": "m", "requested_ns": 1}


@pytest.mark.parametrize("kind", [Catalog, EvaluationList, EvaluationStatus, RunStatus])
def test_an_answer_is_the_same_in_json_and_msgpack(kind: Any) -> None:
    whole = sample(kind)
    assert decode_body(kind, encode_body(whole)) == whole
    assert decode_body(kind, encode_body(whole, json_text=True)) == whole


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"state": "dreaming"}, "state"),
        ({"evaluation": ""}, "evaluation"),
        ({"runs": [{"run": "r0"}]}, "runs.0.session"),
        ({"refusals": [{"agent": "a"}]}, "refusals.0.reason"),
    ],
)
def test_what_is_wrong_with_a_status_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(EvaluationStatus, _STATUS | changes)
    assert raised.value.field == field


def test_a_status_of_a_list_has_no_runs() -> None:
    assert parse(EvaluationStatus, _STATUS).runs == ()
    assert Catalog() == parse(Catalog, {})
