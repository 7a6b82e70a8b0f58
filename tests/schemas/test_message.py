"""What every message is: frozen, tolerant of later fields; commands are not; ids repeat."""

import pytest
from pydantic import ValidationError

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.evaluation import EvaluationCancelled
from schemas.message import VERSION, Command, Envelope, Fact, derived_id
from schemas.request import Cancel

_FACT = EvaluationCancelled(evaluation="e1", reason="why")


@pytest.mark.parametrize("kind", [*FACTS.values(), *COMMANDS.values()])
def test_a_message_is_frozen_and_says_what_it_is(kind: type[Fact] | type[Command]) -> None:
    assert kind.model_config["frozen"]
    assert (kind.__doc__ or "").strip().endswith((".", "…"))


def test_a_fact_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        _FACT.reason = "another"  # type: ignore[misc]


@pytest.mark.parametrize("kind", FACTS.values())
def test_facts_tolerate_what_is_added_later(kind: type[Fact]) -> None:
    assert kind.model_config["extra"] == "ignore"


@pytest.mark.parametrize("kind", COMMANDS.values())
def test_commands_refuse_what_they_do_not_know(kind: type[Command]) -> None:
    assert kind.model_config["extra"] == "forbid"
    with pytest.raises(ValidationError, match="nosuchfield"):
        kind.model_validate({"nosuchfield": 1})


def test_an_envelope_names_its_fact() -> None:
    envelope = Envelope.around(_FACT, id="1", cause="0", time_ns=5, trace="t")
    told = envelope.model_dump(by_alias=True)
    assert (told["schema"], told["version"], told["data"]["reason"]) == (
        "evaluation.cancelled",
        VERSION,
        "why",
    )
    assert Envelope.model_validate(told) == envelope


def test_an_id_derives_from_its_cause_alone() -> None:
    assert derived_id("c", "n", 1) == derived_id("c", "n", 1)
    ids = {
        derived_id(*each) for each in (("c", "n", 1), ("c", "n", 2), ("c", "m", 1), ("d", "n", 1))
    }
    assert len(ids) == 4
    assert all(len(each) == 32 for each in ids)


def test_a_command_has_a_verb() -> None:
    assert Cancel.verb == "cancel"
