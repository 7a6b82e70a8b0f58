"""`mlscope show`: an evaluation with its failures, or a manifest."""

import csv
import io

import pytest
import yaml

from cli import exits
from schemas.evaluation import EvaluationAnalyzed
from schemas.values.identity import new_evaluation_id
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns
from tests.stories import FAILURES, LATENCY, whole_story

E1 = "00000000000000e1"


async def test_show_tells_an_evaluation_or_a_manifest(
    mlscope: CommandLine, standing: StandIns
) -> None:
    await standing.tell(*whole_story(E1))
    shown = (await mlscope("show", E1)).out
    assert "analyzed" in shown
    assert "r1" in shown
    assert yaml.safe_load((await mlscope("show", "tiny")).out)["version"] == "1.0.0"
    assert (await mlscope("show", "tiny", "-o", "json")).json()[0]["version"] == "1.0.0"
    rows = list(csv.DictReader(io.StringIO((await mlscope("show", "tiny", "-o", "csv")).out)))
    assert [(row["model"], row["version"]) for row in rows] == [("tiny", "1.0.0")]
    assert yaml.safe_load((await mlscope("show", "tiny:>=1 <2")).out)["name"] == "tiny"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("nosuch", "nosuch"), ("tiny:>=2", "nothing is named"), ("tiny:newest", "newest")],
)
async def test_what_is_nowhere_is_not_shown(
    mlscope: CommandLine, standing: StandIns, wanted: str, said: str
) -> None:
    none = await mlscope("show", wanted)
    assert (none.code, said in none.err) == (exits.USAGE, True)


async def test_show_tells_why_queries_failed(mlscope: CommandLine, standing: StandIns) -> None:
    evaluation = new_evaluation_id()
    standing.held = [LATENCY, FAILURES]
    analyzed = EvaluationAnalyzed(evaluation=evaluation, tables=("latency", "failures"))
    await standing.tell(*whole_story(evaluation)[:-1], analyzed)
    shown = (await mlscope("show", evaluation)).out
    assert "Why queries failed" in shown
    assert "result       Half of the queries took 5 ms." in shown
    assert "decode: torn" in shown
    assert (await mlscope("show", evaluation, "-o", "json")).json()["failures"] == [
        {"run": "r0", "reason": "decode: torn"}
    ]
