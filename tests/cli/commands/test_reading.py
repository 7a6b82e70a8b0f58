"""`ls`, `show`, `tables`: three formats of the same rows."""

import csv
import io
import json
from typing import Any

import pytest
import yaml

from cli import exits
from cli.commands.listing import (
    catalog_rows,
    evaluation_rows,
    offered,
    shown_agents,
    shown_evaluations,
    shown_models,
    sought,
)
from cli.failures import Misused
from cli.output import Rows, table_lines
from mlscope.client.story import unheard
from schemas.evaluation import EvaluationAnalyzed
from schemas.request import ListEvaluations
from schemas.status import AgentStatus, Catalog
from tests.cli.commands.conftest import CommandLine
from tests.stories import FAILURES, LATENCY, StandIns, a_model, whole_story

E1 = "00000000000000e1"


async def test_models_list_in_three_formats(mlscope: CommandLine, standing: StandIns) -> None:
    table = (await mlscope("ls", "models")).out.splitlines()
    assert table[0].split()[:2] == ["model", "version"]
    assert table[1].split()[:2] == ["tiny", "1.0.0"]
    assert (await mlscope("ls", "models", "-o", "json")).json()[0]["model"] == "tiny"
    assert (await mlscope("ls", "models", "-o", "csv")).out.startswith("model,version,task")


def test_a_models_figures_are_plain_numbers_and_short_to_people() -> None:
    told = {"attributes": {"parameters": 4_652_008, "top1": 74.83, "training_dataset": "D"}}
    model = a_model().model_copy(update=told)
    rows = catalog_rows(Catalog(models=(model,)), "models")
    record = rows.maps()[0]
    said = (record["parameters"], record["accuracy"], record["metric"])
    assert said == (4_652_008, 74.83, "top-1 on D")
    shown = table_lines(shown_models(rows), fit=80)
    assert shown[1].split() == ["tiny", "1.0.0", "onnxruntime", "74.83", "4.65", "M"]


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
    assert [row[0] for row in sought(MODELS, wanted).rows] == models


@pytest.mark.parametrize(
    ("framework", "is_offered"),
    [
        ("", True),
        ("onnxruntime", True),
        ("ONNX", True),
        ("onnxruntime:>=1.16", True),
        ("onnxruntime:<1.0", False),
        ("pytorch", False),
    ],
)
def test_models_are_offered_by_framework_and_version(framework: str, is_offered: bool) -> None:
    model = a_model()
    needy = model.framework.model_copy(update={"version": ">=1.2 <2"})
    model = model.model_copy(update={"framework": needy})
    assert offered([model], framework) == ((model,) if is_offered else ())


def test_hidden_models_are_not_offered_and_a_constraint_is_read() -> None:
    hidden = a_model().model_copy(update={"hidden": True})
    assert offered([hidden], "") == ()
    with pytest.raises(Misused, match="--framework onnxruntime:new"):
        offered([hidden], "onnxruntime:new")


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
    assert (await mlscope("show", "nosuch")).code == exits.USAGE
    assert yaml.safe_load((await mlscope("show", "tiny:>=1 <2")).out)["name"] == "tiny"
    for wanted, said in (("tiny:>=2", "nothing is called"), ("tiny:newest", "newest")):
        none = await mlscope("show", wanted)
        assert (none.code, said in none.err) == (exits.USAGE, True)


async def test_show_tells_why_queries_failed(mlscope: CommandLine, standing: StandIns) -> None:
    standing.held = [LATENCY, FAILURES]
    analyzed = EvaluationAnalyzed(evaluation=E1, tables=("latency", "failures"))
    await standing.tell(*whole_story(E1)[:-1], analyzed)
    shown = (await mlscope("show", E1)).out
    assert "Why queries failed" in shown
    assert "decode: torn" in shown
    assert (await mlscope("show", E1, "-o", "json")).json()["failures"] == [
        {"run": "r0", "reason": "decode: torn"}
    ]


async def test_tables_print_all_or_one(mlscope: CommandLine, standing: StandIns) -> None:
    await standing.tell(*whole_story(E1))
    found = (await mlscope("tables", E1, "-o", "json")).json()
    assert list(found) == ["latency"]
    assert (await mlscope("tables", E1, "latency", "-o", "csv")).out.startswith("run,p50\n")
    missing = await mlscope("tables", E1, "none")
    assert missing.code == exits.USAGE
    assert "none" in missing.err


async def test_analyses_are_a_line_each_and_whole_by_number(
    mlscope: CommandLine, standing: StandIns
) -> None:
    update = {"name": "kernels", "id": "A8", "verdict": "None is long."}
    standing.held = [LATENCY, LATENCY.model_copy(update=update)]
    await standing.tell(*whole_story(E1))
    lines = (await mlscope("analyze", E1, "-o", "json")).json()
    assert [(each["id"], each["name"]) for each in lines] == [("", "latency"), ("A8", "kernels")]
    said = (await mlscope("analyze", E1)).out
    assert "None is long." in said
    (whole,) = (await mlscope("analyze", E1, "kernels", "-o", "json")).json()
    assert (whole["id"], whole["rows"][0].keys()) == ("A8", {"run", "p50"})
    for called in ("kernels", "a8", "Kernels"):
        printed = await mlscope("analyze", E1, called, "-o", "csv")
        assert printed.out.startswith("run,p50\n"), printed.err
    assert (await mlscope("tables", E1, "a8", "-o", "csv")).out.startswith("run,p50\n")


async def test_analyses_in_short_say_which_of_them_have_caveats(
    mlscope: CommandLine, standing: StandIns
) -> None:
    noted = {"name": "kernels", "id": "A8", "caveats": ("r0: noisy", "r0: few")}
    latency = LATENCY.model_copy(update={"caveats": ("r0: noisy",)})
    standing.held = [latency, LATENCY.model_copy(update=noted)]
    await standing.tell(*whole_story(E1))
    short = await mlscope("analyze", E1)
    assert short.err.splitlines() == [
        "note: r0: noisy",
        f"1 table has caveats of its own, printed by: mlscope analyze {E1} kernels",
    ]
    assert "*" not in short.out
    assert (await mlscope("analyze", E1, "-o", "csv")).err == ""


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
    assert said[2].endswith("prints others: levels")


async def test_evaluations_list_the_newest(mlscope: CommandLine, standing: StandIns) -> None:
    ended = await mlscope("ls", "evaluations", "-o", "json")
    assert json.loads(ended.out)[0]["state"] == "requested"
    assert "address" in json.loads(ended.out)[0]
    shown = (await mlscope("ls", "evaluations")).out
    heads = ["evaluation", "state", "model", "framework", "requested", "agents"]
    assert shown.splitlines()[0].split() == heads


def test_evaluations_fit_a_terminal_word_by_word() -> None:
    more = {"model": "efficientnet-lite0:1.0.0", "framework": "onnxruntime 1.31.1"}
    status = unheard(E1).model_copy(update={**more, "state": "analyzed", "agents": ("vm",)})
    rows = evaluation_rows([status.model_copy(update={"requested_ns": 1_795_226_400 * 10**9})])
    assert rows.maps()[0]["requested"] == "2026-11-21T02:00:00Z"
    lines = table_lines(shown_evaluations(rows), fit=80)
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {E1, "efficientnet-lite0:1.0.0", "onnxruntime", "2026-11-21", "02:00:00"} <= set(words)


async def test_evaluations_are_listed_under_the_constraints_of_requests(
    mlscope: CommandLine, standing: StandIns
) -> None:
    words = (
        *("--model", "tiny", "--model-version", ">=1", "--framework", "onnxruntime:>=1.16"),
        *("--agent", "a1", "--device", "cpu", "--need", "memory_bytes=8", "--label", "build=007"),
        *("--state", "analyzed", "--limit", "3"),
    )
    assert (await mlscope("ls", "evaluations", *words)).code == exits.OK
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
        }
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("models", "--state", "failed"), "--state is of evaluations, not of models"),
        (("evaluations", "--task", "ocr"), "--task is of models, not of evaluations"),
        (("agents", "--framework", "jax"), "--framework is of evaluations and models"),
        (("models", "--limit", "3"), "--limit is of evaluations"),
        (("evaluations", "--model", "a:>=1", "--model-version", ">=2"), "leave --model-version"),
        (("evaluations", "--need", "colour=red"), "system.colour"),
    ],
)
async def test_a_constraint_that_says_nothing_is_refused(
    mlscope: CommandLine, standing: StandIns, words: tuple[str, ...], said: str
) -> None:
    ended = await mlscope("ls", *words)
    assert ended.code == exits.USAGE
    assert said in ended.err
    assert standing.listed == []


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


def test_a_table_lines_up_numbers_to_the_right() -> None:
    rows = Rows(("name", "p50"), (("a", 5_000_000), ("bcd", 70)), units=("", "ns"))
    assert table_lines(rows) == ["name    p50", "a      5 ms", "bcd   70 ns"]
    assert table_lines(Rows(("x",), ())) == ["x"]


def agent_rows(labels: dict[str, str] | None = None, **hardware: object) -> Rows:
    machine = {"hostname": "h", "architecture": "amd64", "cores": 2, "memory_bytes": 1 << 30}
    frameworks = ("jax", "litert", "onnxruntime", "openvino", "pytorch", "tensorflow")
    said = {
        "agent": "local-1",
        "incarnation": "i1",
        "hardware": machine | hardware,
        "runtimes": [{"framework": each, "version": "2.20.1"} for each in frameworks],
        "labels": labels or {},
    }
    status = AgentStatus.model_validate({"announcement": said})
    return catalog_rows(Catalog(agents=(status,)), "agents")


@pytest.mark.parametrize("fit", [80, 60])
def test_agents_fit_a_terminal_and_nothing_of_them_is_cut(fit: int) -> None:
    rows = agent_rows(cpu_model="Intel(R) Xeon(R) Processor @ 2.70GHz", **SHARES)
    lines = table_lines(shown_agents(rows), fit=fit)
    assert max(map(len, lines)) <= fit
    assert "tensorflow:2.20.1" in "".join(lines) or fit < 80
    assert {"local-1", "64", "1100", "Intel(R)"} <= set("\n".join(lines).split())
    assert max(map(len, table_lines(shown_agents(rows)))) <= 120


def test_an_agents_share_is_said_once_when_it_is_the_host() -> None:
    rows = shown_agents(agent_rows({"rack": "7"}))
    record = dict(zip(rows.columns, rows.rows[0], strict=True))
    assert (record["cores"], record["memory"]) == ("2", "1.074 GB")
    assert record["labels"] == "rack=7"
    assert "accelerators" not in record
    assert "labels" not in shown_agents(agent_rows()).columns


SHARES: dict[str, Any] = {"host_cores": 64, "host_memory_bytes": 1 << 40}


def test_an_agent_is_listed_with_its_share_of_the_host() -> None:
    listed = []
    for rows in (agent_rows(), agent_rows(**SHARES)):
        record = dict(zip(rows.columns, rows.rows[0], strict=True))
        listed.append([record[name] for name in ("cores", "host_cores", "memory", "host_memory")])
    assert listed[0][:2] == [2, None]
    assert listed[1][:2] == [2, 64]
    assert listed[0][2] == listed[1][2] != listed[1][3]
