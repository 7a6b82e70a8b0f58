"""`mlscope compare` of figures: what is asked, what is printed, what is refused."""

import pytest

from cli import exits
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns


async def test_three_evaluations_are_compared_by_their_figures(
    mlscope: CommandLine, standing: StandIns
) -> None:
    told = await mlscope("compare", "e1", "e2", "e3", "-o", "json")
    assert [each["name"] for each in told.json()] == ["latency"]
    (command,) = standing.compared
    assert (command.figures, command.others) == (True, ("e3",))


async def test_targets_and_prices_are_asked_in_the_contracts_units(
    mlscope: CommandLine, standing: StandIns
) -> None:
    targets = ("--latency-ms", "20", "--cost", "1.5", "--accuracy", "0.7")
    await mlscope("compare", "e1", "e2", *targets, "--price", "p3=3.06")
    (command,) = standing.compared
    assert (command.most_latency_ns, command.most_cost) == (2e7, 1.5)
    assert (command.least_accuracy, command.prices) == (0.7, {"p3": 3.06})


async def test_one_comparison_can_be_named(mlscope: CommandLine, standing: StandIns) -> None:
    told = await mlscope("compare", "e1", "e2", "--only", "latency", "-o", "csv")
    assert told.out.startswith("run,p50\n")
    missing = await mlscope("compare", "e1", "e2", "--only", "spoons")
    assert missing.code == exits.USAGE
    assert "choose from: latency" in missing.err


@pytest.mark.parametrize("price", ["p3", "p3=much"])
async def test_a_price_that_is_none_is_misuse(mlscope: CommandLine, price: str) -> None:
    told = await mlscope("compare", "e1", "e2", "--price", price)
    assert (told.code, "AGENT=DOLLARS" in told.err) == (exits.USAGE, True)
