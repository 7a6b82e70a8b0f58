"""Messages of the past are read for ever: within a version fields are only added."""

from typing import Any

import pytest

from schemas.encoding.codec import decode, decode_body, unpack
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.subjects import subject_of
from tests.schemas.samples import FOLDER, golden_bodies


def _holds(newer: Any, older: Any) -> bool:
    """Tell whether everything the older value says is in the newer one."""
    if isinstance(older, dict) and isinstance(newer, dict):
        return all(key in newer and _holds(newer[key], each) for key, each in older.items())
    if isinstance(older, list | tuple):
        return len(older) == len(newer) and all(map(_holds, newer, older))
    return bool(newer == older)


def test_every_message_has_a_golden_file() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(golden_bodies())


@pytest.mark.parametrize("name", FACTS)
def test_a_golden_fact_is_read(name: str) -> None:
    body = (FOLDER / f"{name}.msgpack").read_bytes()
    envelope, fact = decode(body)
    assert (envelope.schema_, envelope.id, envelope.cause) == (name, "a" * 32, "b" * 32)
    assert _holds(fact.model_dump(), unpack(body)["data"])
    assert subject_of(fact).startswith(f"mlscope.v1.{fact.entity}.")


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_golden_command_is_read(verb: str) -> None:
    body = (FOLDER / f"{verb}.msgpack").read_bytes()
    command = decode_body(COMMANDS[verb], body)
    assert _holds(command.model_dump(), unpack(body))


def test_a_lost_field_would_be_noticed() -> None:
    assert not _holds({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})
    assert not _holds({"a": [1]}, {"a": [1, 2]})
    assert _holds({"a": [1], "new": 0}, {"a": (1,)})
