"""The stop rule of a request that gives none."""

from mlscope.load.stop_rule import RESULT_RULE, with_stop_rule
from schemas.request import Blocks, Evaluate


def test_a_request_without_a_rule_is_measured_until_its_result_is_known() -> None:
    request = with_stop_rule(Evaluate(model="m"), 10)
    assert request.blocks == RESULT_RULE
    assert with_stop_rule(Evaluate(model="m"), 60).blocks == RESULT_RULE.model_copy(
        update={"budget_s": 60}
    )


def test_an_explicit_rule_stays_exactly_what_it_says() -> None:
    for rule in (Blocks(), Blocks(least=2, most=5, interval=0.02)):
        request = Evaluate(model="m", blocks=rule)
        assert with_stop_rule(request, 10) is request


def test_no_budget_is_one_block() -> None:
    assert with_stop_rule(Evaluate(model="m"), 0).blocks == Blocks()
