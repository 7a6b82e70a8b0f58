"""Refusals name the field, what was found and what is allowed; no message is without bounds."""

from mlscope.manifests.errors import BadConstraint
from schemas.request import AgentReason
from services.scheduler.errors import Undecided, invalid, unknown, unsatisfiable


def test_an_invalid_value_is_named_with_what_is_allowed() -> None:
    refused = invalid("batch_sizes", 0, "1 or more").refused
    assert (refused.error, refused.field) == ("invalid", "batch_sizes")
    assert (refused.found, refused.allowed) == ("0", "1 or more")
    assert refused.message == "batch_sizes: found 0, allowed: 1 or more"


def test_an_unknown_name_comes_with_names_near_it_if_there_are() -> None:
    refused = unknown("model", "tinny", ["tiny", "tin"]).refused
    assert refused.message == "model: nothing is named 'tinny'; similar: tiny, tin"
    assert refused.allowed == "tiny, tin"
    assert unknown("model", "x", []).refused.message == "model: nothing is named 'x'"


def test_of_many_names_none_near_only_their_number_is_told() -> None:
    refused = unknown("model", "x", [], (f"model{number}" for number in range(100))).refused
    assert refused.message == "model: nothing is named 'x', and none of 100 names is like it"
    assert refused.allowed == ""


def test_nobody_fits_is_told_agent_by_agent() -> None:
    assert unsatisfiable(()).refused.message == "no agent is known"
    reasons = tuple(AgentReason(agent=f"a{number}", reason="left") for number in range(100))
    refused = unsatisfiable(reasons).refused
    assert refused.agents == reasons
    assert refused.message.startswith("no agent fits: a0: left; a1: left")
    assert "a20" not in refused.message


def test_errors_say_what_they_are_about() -> None:
    assert str(BadConstraint("=>1")).startswith("'=>1' is not a version constraint")
    assert str(Undecided("e1")) == "e1"
    assert str(invalid("f", "x", "y")) == "invalid: f: found 'x', allowed: y"


def test_a_refusal_is_small_however_large_the_field() -> None:
    large = "x" * 6_000_000
    for refused in (invalid("options", large, "less").refused, unknown("model", large, ()).refused):
        assert len(refused.model_dump_json()) < 2000
        assert refused.found.startswith("xxx")
    assert "allowed: less" in invalid("options", large, "less").refused.message
