"""Commands anyone may send: short forms mean the long ones, bounds hold, answers are told apart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.encoding.codec import decode_body, encode_body, parse, unpack
from schemas.encoding.errors import MalformedMessage
from schemas.level import Level
from schemas.request import (
    Accepted,
    AgentReason,
    Blocks,
    Evaluate,
    ListEvaluations,
    Refused,
    ShowFlow,
    ShowPredictions,
    ShowTables,
)


def wrong_field(kind: Any, **fields: Any) -> str:
    with pytest.raises(MalformedMessage) as raised:
        parse(kind, fields)
    return raised.value.field


def test_levels_are_no_deeper_than_what_is_traced() -> None:
    asked = parse(Evaluate, {"model": "m", "levels": ["none", "model"]})
    assert asked.levels == (Level.NONE, Level.MODEL)
    with pytest.raises(MalformedMessage) as raised:
        parse(Evaluate, {"model": "m", "levels": ["framework"], "trace_level": "model"})
    assert raised.value.field == "levels"
    assert str(raised.value) == (
        "levels: none deeper than trace_level, model; leave trace_level out, or ask for "
        "trace_level framework (found ['framework'])"
    )


def test_levels_imply_the_level_that_is_traced() -> None:
    assert parse(Evaluate, {"model": "m", "levels": ["framework"]}).trace_level is Level.FRAMEWORK
    assert parse(Evaluate, {"model": "m", "levels": ["none"]}).trace_level is Level.MODEL
    with pytest.raises(MalformedMessage, match="unknown trace level 'deep'"):
        parse(Evaluate, {"model": "m", "levels": ["deep"]})


def test_a_model_s_name_is_a_whole_request() -> None:
    asked = Evaluate(model="tiny")
    assert [choice.name for choice in asked.scenarios] == ["online"]
    assert (asked.batch_sizes, asked.trace_level, asked.spread) == ((1,), Level.MODEL, "one")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"scenarios": "online"}, {"scenarios": [{"name": "online"}]}),
        ({"scenarios": ["a", {"name": "b"}]}, {"scenarios": [{"name": "a"}, {"name": "b"}]}),
        ({"framework": "f:>=1 <2"}, {"framework": {"name": "f", "version": ">=1 <2"}}),
        ({"framework": "f"}, {"framework": {"name": "f"}}),
        ({"trace_level": "FRAMEWORK_TRACE"}, {"trace_level": "framework"}),
    ],
)
def test_a_short_form_means_the_long_one(short: dict[str, Any], long: dict[str, Any]) -> None:
    assert parse(Evaluate, {"model": "m", **short}) == parse(Evaluate, {"model": "m", **long})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scenarios": []}, "scenarios"),
        ({"scenarios": 5}, "scenarios"),
        ({"scenarios": ["online"] * 65}, "scenarios"),
        ({"batch_sizes": []}, "batch_sizes"),
        ({"batch_sizes": [65_537]}, "batch_sizes"),
        ({"batch_sizes": [2, 2]}, "batch_sizes"),
        ({"batch_sizes": ["x"]}, "batch_sizes.0"),
        ({"blocks": {"least": 3, "most": 2}}, "blocks"),
        ({"blocks": {"interval": 1.0}}, "blocks.interval"),
        ({"run_timeout_s": 0}, "run_timeout_s"),
        ({"wait_s": -1}, "wait_s"),
        ({"outputs": 100_001}, "outputs"),
        ({"spread": "some"}, "spread"),
        ({"pacing": "fast"}, "pacing"),
        ({"agents": ["a b"]}, "agents.0"),
        ({"key": "k" * 257}, "key"),
        ({"system": {"memory_bytes": -1}}, "system.memory_bytes"),
        ({"labels": {"a": 1}}, "labels.a"),
    ],
)
def test_a_field_out_of_bounds_is_named(fields: dict[str, Any], field: str) -> None:
    assert wrong_field(Evaluate, model="m", **fields) == field


@pytest.mark.parametrize("limit", [0, 1001])
def test_lists_are_bounded(limit: int) -> None:
    assert wrong_field(ListEvaluations, limit=limit) == "limit"
    assert wrong_field(ShowTables, evaluation="e", offset=-1) == "offset"


@given(st.lists(st.integers(1, 65_536), min_size=1, max_size=64, unique=True))
def test_any_batch_sizes_within_bounds_are_taken(sizes: list[int]) -> None:
    assert Evaluate(model="m", batch_sizes=tuple(sizes)).batch_sizes == tuple(sizes)


def test_an_answer_says_whether_it_was_accepted() -> None:
    refused = Refused(error="busy", message="m", agents=(AgentReason(agent="a", reason="r"),))
    assert Accepted(evaluation="e1").accepted
    assert not refused.accepted
    with pytest.raises(MalformedMessage):
        parse(Accepted, refused.model_dump())


def test_what_a_refusal_repeats_is_cut() -> None:
    large = "x" * 10_000
    refused = Refused(error="invalid", message=large, field=large, found=large, allowed=large)
    sizes = [len(each) for each in (refused.message, refused.field, refused.found, refused.allowed)]
    assert sizes == [4000, 200, 200, 4000]
    assert refused.found.endswith("...")
    assert len(AgentReason(agent="a1", reason=large).reason) == 1000


_NUMBERS = ("warmup", "outputs", "run_timeout_s", "wait_s")
_NESTED = [("blocks", name) for name in ("least", "most", "interval")]


@pytest.mark.parametrize("value", [True, "1"])
@pytest.mark.parametrize("name", _NUMBERS)
def test_what_decides_a_measurement_is_a_number(name: str, value: object) -> None:
    assert wrong_field(Evaluate, model="m", **{name: value}) == name
    assert getattr(parse(Evaluate, {"model": "m", name: 1.0}), name) == 1


@pytest.mark.parametrize("value", [True, "1"])
@pytest.mark.parametrize(("part", "name"), _NESTED)
def test_so_do_the_parts_of_a_request(part: str, name: str, value: object) -> None:
    assert wrong_field(Evaluate, model="m", **{part: {name: value}}) == f"{part}.{name}"


def test_an_address_s_text_is_a_count_and_a_truth_value_is_none() -> None:
    listed = parse(ListEvaluations, {"limit": "7", "system": {"memory_bytes": "8"}})
    assert (listed.limit, listed.system.memory_bytes) == (7, 8)
    assert wrong_field(ListEvaluations, limit=True) == "limit"
    assert wrong_field(Evaluate, model="m", system={"memory_bytes": True}) == "system.memory_bytes"


@pytest.mark.parametrize("size", [True, "2", 2.5])
def test_a_batch_size_is_a_number(size: object) -> None:
    assert wrong_field(Evaluate, model="tiny", batch_sizes=[size]).startswith("batch_sizes")
    assert parse(Evaluate, {"model": "tiny", "batch_sizes": [2.0]}).batch_sizes == (2,)


def test_serialised_runs_without_a_level_trace_what_they_wait_for() -> None:
    asked = parse(Evaluate, {"model": "m", "serialised": True})
    assert asked.trace_level is Level.SYSTEM
    plain = parse(Evaluate, {"model": "m", "serialised": True, "trace_level": "model"})
    assert plain.trace_level is Level.MODEL
    assert decode_body(Evaluate, encode_body(plain)) == plain


_DAY_S = 86_400


@pytest.mark.parametrize(
    ("kind", "field", "least", "most"),
    [
        (Evaluate, "warmup", 0, 10_000),
        (Evaluate, "outputs", 0, 100_000),
        (Evaluate, "wait_s", 0, _DAY_S),
        (Evaluate, "run_timeout_s", None, _DAY_S),
        (ListEvaluations, "limit", 1, 1000),
        (ListEvaluations, "offset", 0, None),
        (ShowTables, "offset", 0, 2**31 - 1),
        (ShowTables, "limit", 0, 2**31 - 1),
        (ShowPredictions, "offset", 0, 2**31 - 1),
        (ShowPredictions, "limit", 0, 2**31 - 1),
        (ShowFlow, "offset", 0, 2**31 - 1),
    ],
)
def test_a_number_is_taken_up_to_its_bounds(
    kind: Any, field: str, least: int | None, most: int | None
) -> None:
    needed = {"model": "m"} if kind in (Evaluate, ListEvaluations) else {"evaluation": "e1"}
    for bound, beyond in ((least, -1), (most, 1)):
        if bound is not None:
            assert getattr(parse(kind, needed | {field: bound}), field) == bound
            assert wrong_field(kind, **needed, **{field: bound + beyond}) == field


@pytest.mark.parametrize(
    ("field", "least", "most", "beyond"),
    [("least", 1, 1000, 1001), ("most", 1, 1000, 1001), ("budget_s", 0, _DAY_S, _DAY_S + 1)],
)
def test_a_stop_rule_is_taken_up_to_its_bounds(
    field: str, least: int, most: int, beyond: int
) -> None:
    for bound in (least, most):
        rule = {"most": 1000, field: bound}
        asked = parse(Evaluate, {"model": "m", "blocks": rule})
        assert getattr(asked.blocks, field) == bound
    for value in (least - 1, beyond):
        fields = {"most": 1000, field: value}
        assert wrong_field(Evaluate, model="m", blocks=fields) == f"blocks.{field}"


def test_what_nobody_says_is_as_documented() -> None:
    asked = Evaluate(model="m")
    assert (asked.warmup, asked.outputs, asked.run_timeout_s, asked.wait_s) == (3, 64, 600.0, 0.0)
    assert (asked.pacing, asked.visibility, asked.blocks, asked.key) == (
        "auto",
        "cluster",
        None,
        "",
    )
    rule = Blocks()
    assert (rule.least, rule.most, rule.interval, rule.budget_s, rule.of) == (1, 1, 0, 0, "median")
    assert ListEvaluations().limit == 50
    assert (ShowTables(evaluation="e").limit, ShowTables(evaluation="e").offset) == (0, 0)


@pytest.mark.parametrize("level", ["none", 0, Level.NONE])
def test_level_none_is_a_level_that_somebody_asked_for(level: Any) -> None:
    asked = parse(Evaluate, {"model": "m", "serialised": True, "trace_level": level})
    assert asked.trace_level is Level.NONE
    assert wrong_field(Evaluate, model="m", levels=["model"], trace_level=level) == "levels"


@pytest.mark.parametrize("level", [None, ""])
def test_a_level_that_is_empty_is_not_said(level: Any) -> None:
    deeper = parse(Evaluate, {"model": "m", "levels": ["framework"], "trace_level": level})
    assert deeper.trace_level is Level.FRAMEWORK


def test_a_list_names_predictions_only_if_it_wants_them() -> None:
    """A scheduler of release 0.1 refuses a command that names a field which it does not know."""
    assert "predictions" not in unpack(encode_body(ListEvaluations(limit=3)))
    assert unpack(encode_body(ListEvaluations(predictions=True)))["predictions"] is True
