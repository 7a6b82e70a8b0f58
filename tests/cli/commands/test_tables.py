"""`mlscope tables`: all tables or the named ones, with the caveats that they share."""

from cli import exits
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns
from tests.stories import LATENCY, whole_story

E1 = "00000000000000e1"


async def test_tables_print_all_or_one(mlscope: CommandLine, standing: StandIns) -> None:
    await standing.tell(*whole_story(E1))
    found = (await mlscope("tables", E1, "-o", "json")).json()
    assert list(found) == ["latency"]
    assert (await mlscope("tables", E1, "latency", "-o", "csv")).out.startswith("run,p50\n")
    missing = await mlscope("tables", E1, "none")
    assert missing.code == exits.USAGE
    assert "none" in missing.err


async def test_a_caveat_of_several_tables_is_said_once(
    mlscope: CommandLine, standing: StandIns
) -> None:
    caveats = ("r0: noisy", "r1: noisy")
    first = LATENCY.model_copy(update={"caveats": (*caveats, "r0: few")})
    standing.held = [first, LATENCY.model_copy(update={"name": "levels", "caveats": caveats})]
    await standing.tell(*whole_story(E1))
    said = (await mlscope("tables", E1)).err.splitlines()
    assert said == ["latency: r0: few", "note: r0, r1: noisy"]
    said = (await mlscope("tables", E1, "-o", "csv")).err.splitlines()
    assert said[:2] == ["latency: r0, r1: noisy", "latency: r0: few"]
    assert said[2].endswith("print others with `mlscope tables`: levels")


async def test_tables_are_narrowed(mlscope: CommandLine, standing: StandIns) -> None:
    rows = (("r0", 3.0), ("r1", None), ("r0", 1.0), ("r1", 2.0))
    standing.held = [LATENCY.model_copy(update={"rows": rows})]
    await standing.tell(*whole_story(E1))
    words = ("tables", E1, "latency", "-o", "csv")
    sorted_rows = (await mlscope(*words, "--sort=-p50", "--limit", "3")).out.split()
    assert sorted_rows == ["run,p50", "r0,3.0", "r1,2.0", "r0,1.0"]
    own = (await mlscope(*words, "--run", "r1", "--sort", "p50", "--columns", "p50")).out
    assert own.splitlines() == ["p50", "2.0", '""']


async def test_a_column_that_no_table_has_is_refused_with_those_there_are(
    mlscope: CommandLine, standing: StandIns
) -> None:
    await standing.tell(*whole_story(E1))
    for option in ("--sort", "--columns"):
        ended = await mlscope("tables", E1, option, "speed")
        assert ended.code == exits.USAGE
        assert f"{option}: no column speed; known columns: p50, run" in ended.err
    assert (await mlscope("tables", E1, "--limit", "-1")).code == exits.USAGE
