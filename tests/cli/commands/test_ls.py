"""`mlscope ls`: its rows in three formats, its constraints, and what it refuses."""

import json

import pytest

from cli import exits
from cli.commands.ls import matching_rows, visible_models
from cli.failures import Misused
from cli.printing.output import Rows
from schemas.manifest import FrameworkNeed
from schemas.request import ListEvaluations
from tests.cli.conftest import CommandLine
from tests.services.scheduler.samples import an_agent
from tests.stand_ins import StandIns
from tests.stories import a_model


async def test_models_list_in_three_formats(mlscope: CommandLine, standing: StandIns) -> None:
    table = (await mlscope("ls", "models")).out.splitlines()
    assert table[0].split()[:2] == ["model", "version"]
    assert table[1].split()[:2] == ["tiny", "1.0.0"]
    assert (await mlscope("ls", "models", "-o", "json")).json()[0]["model"] == "tiny"
    assert (await mlscope("ls", "models", "-o", "csv")).out.startswith("model,version,task")


async def test_refused_manifests_are_named_beside_the_catalog(
    mlscope: CommandLine, standing: StandIns
) -> None:
    standing.catalog = {"refused": {"scenario bursts": "burst_queries: found '10'"}}
    note = "the registry refused a shipped manifest: scenario bursts: burst_queries: found '10'\n"
    assert (await mlscope("ls", "scenarios")).err == note
    assert (await mlscope("ls", "agents")).err == ""


MODELS = Rows(
    ("model", "task", "framework"),
    (
        ("lite0", "image classification", "onnxruntime >=1.16"),
        ("yolo", "object detection", "pytorch"),
        ("resnet", "image classification", "pytorch >=2.0"),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "models"),
    [
        ({}, ["lite0", "yolo", "resnet"]),
        ({"task": "Classification"}, ["lite0", "resnet"]),
        ({"task": "classification", "framework": "pytorch"}, ["resnet"]),
        ({"": "detect"}, ["yolo"]),
        ({"": "onnx", "framework": "pytorch"}, []),
    ],
)
def test_rows_are_sought_by_column(wanted: dict[str, str], models: list[str]) -> None:
    assert [row[0] for row in matching_rows(MODELS, wanted).rows] == models


@pytest.mark.parametrize(
    ("framework", "is_offered"),
    [
        ("", True),
        ("onnxruntime", True),
        ("ONNX", True),
        ("ort", True),
        ("tflite", False),
        ("onnxruntime:>=1.16", True),
        ("onnxruntime:<1.0", False),
        ("pytorch", False),
    ],
)
def test_models_are_offered_by_framework_and_version(framework: str, is_offered: bool) -> None:
    model = a_model()
    needy = model.framework.model_copy(update={"version": ">=1.2 <2"})
    model = model.model_copy(update={"framework": needy})
    assert visible_models([model], framework) == ((model,) if is_offered else ())


def test_hidden_models_are_not_offered_and_a_constraint_is_read() -> None:
    hidden = a_model().model_copy(update={"hidden": True})
    assert visible_models([hidden], "") == ()
    with pytest.raises(Misused, match="--framework onnxruntime:new"):
        visible_models([hidden], "onnxruntime:new")


async def test_models_are_sought_by_framework_and_word(
    mlscope: CommandLine, standing: StandIns
) -> None:
    async def names(*arguments: str) -> list[str]:
        found = (await mlscope("ls", "models", *arguments, "-o", "json")).json()
        return [each["model"] for each in found]

    assert await names("TIN", "--framework", "onnx") == ["tiny"]
    assert await names("--framework", "pytorch") == []
    assert await names("resnet") == []
    assert (await mlscope("ls", "agents", "--task", "x")).code == exits.USAGE


async def test_evaluations_list_the_newest(mlscope: CommandLine, standing: StandIns) -> None:
    ended = await mlscope("ls", "evaluations", "-o", "json")
    assert json.loads(ended.out)[0]["state"] == "requested"
    assert "address" in json.loads(ended.out)[0]
    shown = (await mlscope("ls", "evaluations")).out
    heads = ["evaluation", "state", "model", "framework", "requested", "agents"]
    assert shown.splitlines()[0].split() == heads


async def test_a_hint_counts_the_evaluations_that_a_list_hides(
    mlscope: CommandLine, standing: StandIns
) -> None:
    assert (await mlscope("ls", "evaluations")).err == ""
    standing.predicted = ["p1", "p2"]
    hint = "not listed: 2 of `mlscope predict` and of models tried (--all lists them)\n"
    assert (await mlscope("ls", "evaluations")).err == hint
    assert (await mlscope("ls", "evaluations", "no-such-word")).err == ""
    assert (await mlscope("ls", "evaluations", "-o", "json")).err == ""
    ended = await mlscope("ls", "evaluations", "--all")
    assert (ended.err, "p1" in ended.out) == ("", True)


async def test_evaluations_are_listed_under_the_constraints_of_requests(
    mlscope: CommandLine, standing: StandIns
) -> None:
    words = """
        --model tiny --model-version >=1 --framework onnxruntime:>=1.16
        --agent a1 --device cpu --need memory_bytes=8 --label build=007
        --state analyzed --limit 3 --all
    """
    assert (await mlscope("ls", "evaluations", *words.split())).code == exits.OK
    (asked,) = standing.listed
    assert asked == ListEvaluations.model_validate(
        {
            "model": "tiny:>=1",
            "framework": "onnxruntime:>=1.16",
            "agents": ["a1"],
            "system": {"device": "cpu", "memory_bytes": 8},
            "labels": {"build": "007"},
            "state": "analyzed",
            "limit": 3,
            "predictions": True,
        }
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("models", "--state", "failed"), "--state applies to evaluations, not to models"),
        (("evaluations", "--task", "ocr"), "--task applies to models, not to evaluations"),
        (("agents", "--framework", "jax"), "--framework applies to evaluations and models"),
        (("models", "--limit", "3"), "--limit applies to evaluations"),
        (("evaluations", "--model", "a:>=1", "--model-version", ">=2"), "omit --model-version"),
        (("evaluations", "--need", "colour=red"), "system.colour"),
    ],
)
async def test_a_constraint_that_says_nothing_is_refused(
    mlscope: CommandLine, standing: StandIns, words: tuple[str, ...], said: str
) -> None:
    ended = await mlscope("ls", *words)
    assert (ended.code, standing.listed) == (exits.USAGE, [])
    assert said in ended.err


@pytest.mark.parametrize(
    "words",
    [("show", "a b"), ("cancel", "a b"), ("watch", "a b"), ("ls", "evaluations", "--limit", "0")],
)
async def test_a_word_that_cannot_be_is_refused_in_one_line(
    mlscope: CommandLine, standing: StandIns, words: tuple[str, ...]
) -> None:
    ended = await mlscope(*words)
    assert ended.code == exits.USAGE
    assert len(ended.err.splitlines()) == 1


async def test_models_say_where_they_run_or_what_is_missing(
    mlscope: CommandLine, standing: StandIns
) -> None:
    needy = a_model().model_copy(
        update={"name": "needy", "framework": FrameworkNeed(name="tensorrt")}
    )
    standing.models, standing.agents = (a_model(), needy), (an_agent("here"),)
    rows = {row["model"]: row for row in (await mlscope("ls", "models", "-o", "json")).json()}
    assert rows["tiny"]["runs_on"] == "here"
    assert (rows["tiny"]["missing"], rows["needy"]["runs_on"]) == ("", "needs tensorrt")
    assert "pip install 'mlscope[tensorrt]'" in rows["needy"]["missing"]
    runnable = (await mlscope("ls", "models", "--runnable", "-o", "json")).json()
    assert [row["model"] for row in runnable] == ["tiny"]
    ended = await mlscope("ls", "agents", "--runnable")
    assert (ended.code, "--runnable applies to models" in ended.err) == (exits.USAGE, True)
