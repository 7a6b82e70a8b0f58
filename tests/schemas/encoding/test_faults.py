"""What is wrong is said of the field somebody wrote, with what may stand there."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.encoding.faults import abbreviate, truncate
from schemas.encoding.message_index import COMMANDS
from schemas.publishing import PublishManifest
from schemas.request import (
    Evaluate,
)
from tests.thoroughness import examples

_PORT = {"type": "tensor"}
_MODEL = {"name": "m", "framework": {"name": "onnxruntime"}, "inputs": [_PORT], "outputs": []}


def wrong(kind: Any, value: dict[str, Any]) -> MalformedMessage:
    with pytest.raises(MalformedMessage) as raised:
        parse(kind, value)
    return raised.value


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        ({}, "model", "required"),
        ({"model": 3}, "model", "string"),
        ({"model": _MODEL}, "model.version", "required"),
        ({"model": "m", "dataset": {"nmae": "d"}}, "dataset.name", "required"),
        (
            {"model": "m", "dataset": {"name": "d", "samples": [{"path": 5}]}},
            "dataset.samples.0.path",
            "string",
        ),
        (
            {"model": "m", "scenarios": [{"nme": "x"}]},
            "scenarios.0.nme",
            "unknown field nme; did you mean name?",
        ),
        ({"modle": "m"}, "modle", "unknown field modle; did you mean model?"),
        ({"colour": 1}, "model", "required"),
        ({"model": "m", "labels": {"why": []}}, "labels.why", "string"),
        ({"model": "m", "batch_sizes": [1, "x"]}, "batch_sizes.1", "integer"),
        ({"model": "m", "framework": 5}, "framework", "FrameworkNeed"),
        ({"model": "m", "levels": 5}, "levels", "tuple"),
        ({"model": "m", "levels": True}, "levels", "tuple"),
        (
            {"model": "m", "framework": {"name": "x" * 600}},
            "framework.name",
            "at most 512 characters",
        ),
    ],
)
def test_the_field_is_named_as_it_was_written(
    value: dict[str, Any], field: str, expected: str
) -> None:
    error = wrong(Evaluate, value)
    assert error.field == field
    assert expected in error.expected


def test_a_manifest_s_kind_is_no_part_of_the_path() -> None:
    manifest = {"kind": "model", "version": "1", **_MODEL, "inputs": [{}]}
    assert wrong(PublishManifest, {"manifest": manifest}).field == "manifest.inputs.0.type"
    assert wrong(PublishManifest, {"manifest": {"kind": "modle"}}).field == "manifest"


def test_a_field_nobody_knows_brings_those_near_it() -> None:
    error = wrong(Evaluate, {"model": "m", "system": {"memmory_bytes": 9}})
    assert error.field == "system.memmory_bytes"
    assert error.expected.startswith("unknown field memmory_bytes; did you mean memory_bytes")
    strange = wrong(Evaluate, {"model": "m", "blocks": {"zzz": 1}})
    assert (
        strange.expected == "unknown field zzz; known fields: least, most, interval, budget_s, of"
    )


def test_a_rule_of_ours_is_said_in_our_words() -> None:
    error = wrong(Evaluate, {"model": "m", "batch_sizes": [0]})
    assert str(error) == ("batch_sizes: a batch size is an integer from 1 to 65536 (found [0])")


@pytest.mark.parametrize("verb", COMMANDS)
@given(value=st.dictionaries(st.text(max_size=9), st.none() | st.integers() | st.text(max_size=3)))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_first_part_of_a_path_is_a_field_of_the_message(
    verb: str, value: dict[str, Any]
) -> None:
    known = {*COMMANDS[verb].model_fields, *value}
    found = _field_at_fault(COMMANDS[verb], value)
    assert found is None or found in known or found.partition(".")[0] in known


def _field_at_fault(kind: Any, value: dict[str, Any]) -> str | None:
    try:
        parse(kind, value)
    except MalformedMessage as error:
        return error.field
    return None


@given(st.text(max_size=30), st.integers(3, 20))
def test_a_text_is_cut_where_it_is_too_long_and_says_so(text: str, most: int) -> None:
    cut = truncate(text, most)
    assert len(cut) <= most
    if len(text) <= most:
        assert cut == text
    else:
        assert (cut[-3:], cut[:-3]) == ("...", text[: most - 3])


def test_a_value_is_shown_as_it_would_be_written_and_not_whole() -> None:
    assert abbreviate("a") == "'a'"
    assert abbreviate([1] * 66) == repr([1] * 66)
    assert (len(abbreviate([1] * 67)), abbreviate([1] * 67)[-4:]) == (200, "1...")


def test_a_fault_shows_what_was_found_and_nothing_where_nothing_was() -> None:
    assert wrong(Evaluate, {}).found == "nothing"
    assert wrong(Evaluate, {"model": "m", "batch_sizes": [1, "x"]}).found == "'x'"
    assert wrong(Evaluate, {"model": "m", "labels": {"why": None}}).found == "None"


class _Counted:
    """A value that counts how often somebody wants its text."""

    asked = 0

    def __repr__(self) -> str:
        self.asked += 1
        return "x"


@pytest.mark.parametrize("collection", [list, tuple, lambda values: dict(enumerate(values))])
def test_of_millions_only_the_first_are_made_into_text(collection: Any) -> None:
    value = _Counted()
    text = abbreviate(collection([value] * 10_000))
    assert (len(text), text[-3:]) == (200, "...")
    assert value.asked <= 200


@pytest.mark.parametrize("value", [{"x" * 4000: 1}, {"model": "m", "labels": {"x" * 4000: "y"}}])
def test_a_name_of_megabytes_is_not_repeated(value: dict[str, Any]) -> None:
    error = wrong(Evaluate, value)
    assert len(error.field) + len(error.expected) < 2000
