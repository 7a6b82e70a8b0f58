"""The files for other languages say what the messages are."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from schemas.encoding.codec import encode_body
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.export.documents import ASYNCAPI_FILE, documents
from schemas.message import Envelope
from tests.schemas.strategies import messages

FOLDER = Path(__file__).resolve().parents[3] / "schemas" / "v1"
FILES = sorted(path.name for path in FOLDER.iterdir())
#: made for who runs these tests: whoever collects them needs their names alone
all_documents = cache(documents)
_SOME = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


def test_the_files_are_those_written_last() -> None:
    assert set(FILES) == all_documents().keys()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == all_documents()[name], (
        "run `mlscope schemas --write`"
    )


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_a_file_is_a_json_schema(name: str) -> None:
    schema = json.loads(all_documents()[name])
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"mlscope.v1.{name.removesuffix('.json')}"
    assert schema["description"]


@pytest.mark.parametrize("name", FACTS)
@given(data=st.data())
@_SOME
def test_a_fact_fits_its_schema(name: str, data: st.DataObject) -> None:
    fact = data.draw(messages(FACTS[name]))
    envelope = Envelope.around(fact, id="1", cause="0", time_ns=5)
    plain = _as_json(envelope.model_dump(by_alias=True))
    Draft202012Validator(json.loads(all_documents()[f"{name}.json"])).validate(plain)


@pytest.mark.parametrize("verb", COMMANDS)
@given(data=st.data())
@_SOME
def test_a_command_fits_its_schema(verb: str, data: st.DataObject) -> None:
    command = data.draw(messages(COMMANDS[verb]))
    plain = json.loads(encode_body(command, json_text=True))
    Draft202012Validator(json.loads(all_documents()[f"{verb}.json"])).validate(plain)


def test_every_reference_of_the_asyncapi_document_resolves() -> None:
    document = yaml.safe_load(all_documents()[ASYNCAPI_FILE])
    references = list(_references(document))
    assert len(references) > 3 * len(FACTS)
    for reference in references:
        assert _resolve(document, reference) is not None, reference


def test_every_fact_and_command_is_a_channel() -> None:
    document = yaml.safe_load(all_documents()[ASYNCAPI_FILE])
    channels = document["channels"]
    assert set(FACTS) | {f"request.{verb}" for verb in COMMANDS} <= set(channels)
    captured = channels["trace.captured"]
    assert captured["address"] == "mlscope.v1.trace.{evaluation}.{run}.captured.{agent}"
    assert set(captured["parameters"]) == {"evaluation", "run", "agent"}
    addresses = [each["address"] for each in channels.values() if each["address"]]
    assert len(set(addresses)) == len(addresses)


def _references(value: Any) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)


def _resolve(document: Any, reference: str) -> Any:
    if reference.startswith("./"):
        return all_documents().get(reference.removeprefix("./"))
    found = document
    for token in reference.removeprefix("#/").split("/"):
        found = found[token]
    return found


def _as_json(value: Any) -> Any:
    """Return what a msgpack reader sees, bytes as text: JSON Schema knows no bytes."""
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
