"""`mlscope compare` of figures: what is asked, what is printed or written, what is refused."""

from pathlib import Path

import pytest

from cli import exits
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns
from tests.stories import beginning, whole_story


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


async def test_a_report_of_a_comparison_is_a_file(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    await standing.tell(*whole_story("e1"), *whole_story("e2"), *beginning("e3"))
    file = tmp_path / "r.html"
    written = await mlscope("compare", "e1", "e2", "--latency-ms", "20", "--report", str(file))
    assert (written.code, written.err) == (exits.OK, "")
    text = file.read_text("utf-8")
    assert "mlscope compare e1 e2 --figures --latency-ms 20" in text
    assert "Half of the queries took 5\u00a0ms." in text
    wrong = await mlscope("compare", "e1", "e2", "--report", "r.doc")
    assert (wrong.code, "expected a file that ends in .html" in wrong.err) == (exits.USAGE, True)
    early = await mlscope("compare", "e1", "e3", "--report", str(file))
    assert "e3 is planned: a report needs its analyses" in early.err


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
