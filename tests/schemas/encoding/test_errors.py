"""Errors of the contract say field, finding and expectation, apart and in one sentence."""

import pytest

from schemas.encoding.errors import MalformedMessage, SchemaError, UnknownMessage


@pytest.mark.parametrize(
    ("field", "start"), [("blocks.least", "blocks.least: "), ("", "message: ")]
)
def test_a_malformed_message_names_its_field(field: str, start: str) -> None:
    error = MalformedMessage(field=field, found="0", expected="1 or more")
    assert str(error) == f"{start}1 or more (found 0)"
    assert (error.field, error.found, error.expected) == (field, "0", "1 or more")


def test_an_unknown_message_names_its_schema_and_version() -> None:
    error = UnknownMessage(schema="run.flown", version=3)
    assert (error.schema, error.version) == ("run.flown", 3)
    assert "'run.flown' version 3" in str(error)


def test_both_are_errors_of_the_contract() -> None:
    assert issubclass(MalformedMessage, SchemaError)
    assert issubclass(UnknownMessage, SchemaError)
