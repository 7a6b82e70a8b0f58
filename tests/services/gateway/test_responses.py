"""Answers as HTTP: JSON without what is not finite, files, and the status a refusal deserves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.client.errors import CommandRefused, Denied, NotAnswering
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused
from services.gateway.responses import as_file, as_json, finite, refusal, refused_by
from services.gateway.table_files import FILES
from tests.stories import LATENCY

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_VALUES)
def test_every_value_becomes_strict_json(value: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(bytes(as_json(value).body), parse_constant=refuse)
    assert finite(told) == told


@pytest.mark.parametrize(
    ("error", "status"),
    [("malformed", 400), ("unknown", 404), ("conflict", 409), ("busy", 503), ("new", 500)],
)
def test_a_refusal_has_the_status_of_its_error(error: str, status: int) -> None:
    response = refusal(Refused(error=error, message="no"))
    assert response.status_code == status
    assert ("retry-after" in response.headers) is (status == 503)
    assert json.loads(bytes(response.body))["accepted"] is False


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (CommandRefused(Refused(error="conflict", message="known")), "conflict", "known"),
        (MalformedMessage(field="model", found="1", expected="a name"), "malformed", "model"),
        (NotAnswering("catalog", "no answer"), "unavailable", "catalog"),
        (Denied("catalog", "not permitted"), "unavailable", "catalog"),
        (RuntimeError("secret path"), "unavailable", "the gateway failed"),
    ],
)
def test_errors_are_in_the_words_of_the_contract(error: Exception, kind: str, message: str) -> None:
    refused = refused_by(error)
    assert refused.error == kind
    assert message in refused.message
    assert "secret path" not in refused.message


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_has_its_type_and_name(suffix: str) -> None:
    response = as_file(LATENCY, suffix)
    assert response.headers["content-type"].startswith(FILES[suffix])
    assert f'"latency.{suffix}"' in response.headers["content-disposition"]
    assert response.body
