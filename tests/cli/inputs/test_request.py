"""Arguments become a request; what is wrong is named with what may stand there."""

from pathlib import Path

import pytest

from cli.arguments import build_parser
from cli.failures import Misused
from cli.inputs.manifests import name_or_manifest, read_map
from cli.inputs.request import (
    batch_sizes_of,
    blocks_of,
    collectors_of,
    pairs_of,
    request_from,
)
from mlscope.client.errors import EvaluationRefused
from mlscope.client.scenario_texts import scenario_in
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.request import Evaluate, ScenarioChoice

_MINE = """\
name: mine
version: 1.0.0
framework: {name: onnxruntime, version: '>=1'}
inputs:
- type: image
  layer_name: x
  shape: [-1, 3]
  steps: [decode]
outputs: [{type: raw}]
model: {graph_path: m.onnx, graph_checksum: 'md5:00000000000000000000000000000000'}
"""


def request(*words: str) -> Evaluate:
    return request_from(build_parser().parse_args(["run", *words]))


def test_what_is_not_said_is_left_to_the_contract() -> None:
    assert request("tiny") == Evaluate(model="tiny")


def test_zero_and_no_warmup_are_said() -> None:
    asked = request("tiny", "--warmup", "0", "--wait", "0", "--outputs", "0")
    assert (asked.warmup, asked.wait_s, asked.outputs) == (0, 0, 0)


def test_scenarios_bring_their_parameters() -> None:
    asked = request("tiny", "--scenario", "poisson:rate_hz=12.5,queries=7", "--scenario", "online")
    assert asked.scenarios == (
        ScenarioChoice(name="poisson", parameters={"rate_hz": 12.5, "queries": 7}),
        ScenarioChoice(name="online"),
    )
    assert scenario_in("online") == {"name": "online", "parameters": {}}


def test_a_device_is_a_need_of_the_system() -> None:
    asked = request("tiny", "--device", "cuda", "--need", "memory_bytes=9", "--all-agents")
    assert (asked.system.device, asked.system.memory_bytes, asked.spread) == ("cuda", 9, "all")


def test_labels_are_texts_as_they_were_written() -> None:
    asked = request("tiny", "--label", "build=007", "--label", "on=1.50")
    assert asked.labels == {"build": "007", "on": "1.50"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("3", {"least": 3, "most": 3, "interval": 0.0, "budget_s": 0.0}),
        ("3:10", {"least": 3, "most": 10, "interval": 0.0, "budget_s": 0.0}),
        ("3:10:0.02", {"least": 3, "most": 10, "interval": 0.02, "budget_s": 0.0}),
        ("1:9:0:60", {"least": 1, "most": 9, "interval": 0.0, "budget_s": 60.0}),
        ("", {}),
    ],
)
def test_blocks_are_a_stop_rule(text: str, rule: dict[str, float]) -> None:
    assert blocks_of(text) == rule


def test_batch_sizes_are_numbers_with_commas() -> None:
    assert batch_sizes_of("1,2,4") == [1, 2, 4]
    with pytest.raises(Misused, match="--batch-size 1;2"):
        batch_sizes_of("1;2")


@pytest.mark.parametrize("pair", ["threads", "=2", ""])
def test_a_pair_has_a_key_and_a_value(pair: str) -> None:
    with pytest.raises(Misused, match="expected KEY=VALUE"):
        pairs_of("--option", [pair])


def test_a_value_that_is_no_yaml_is_named() -> None:
    with pytest.raises(Misused, match=r"^--option a=\[1: "):
        pairs_of("--option", ["a=[1"])


@pytest.mark.parametrize(
    ("option", "typed", "part"),
    [("--scenario", "poisson:queries=3,x", "x"), ("--collector", "perf=x=1,y", "y")],
)
def test_what_was_typed_is_quoted_as_a_whole(option: str, typed: str, part: str) -> None:
    with pytest.raises(Misused, match=f"^{option} {typed}: {part}: expected KEY=VALUE$"):
        request("tiny", option, typed)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--batch-size", "0"), "batch_sizes"),
        (("--trace-level", "deep"), "trace_level"),
        (("--need", "memmory_bytes=1"), "system.memmory_bytes"),
        (("--blocks", "3:1"), "blocks"),
        (("--warmup", "-1"), "warmup"),
        (("--agent", "a b"), "agents.0"),
    ],
)
def test_a_wrong_field_is_refused_before_anything_is_sent(
    words: tuple[str, ...], field: str
) -> None:
    with pytest.raises(EvaluationRefused) as refused:
        request("tiny", *words)
    assert refused.value.field == field


def test_what_ends_like_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.yml"
    path.write_text(_MINE)
    model = request(str(path)).model
    assert isinstance(model, ModelManifest)
    assert (model.name, model.inputs[0].steps[0].operator) == ("mine", "decode")
    assert model.model.checksum == f"md5:{'0' * 32}"
    assert name_or_manifest("mine:>=1.0") == "mine:>=1.0"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (_MINE.replace("decode", "decod"), 8, "inputs.0.steps.0.operator: found decod, allowed:"),
        (_MINE + "outptus: []\n", 11, "outptus: found an unknown field, allowed: outputs?"),
        (_MINE.replace("[-1, 3]", "[-1, three]"), 7, "inputs.0.shape.1: found 'three', allowed:"),
        (_MINE.replace("'>=1'", "'=>1'"), 3, "framework.version: found '=>1', allowed: >=1.12.0"),
        (_MINE.replace("name: mine", "name: [mine"), 2, "allowed: YAML"),
        ("kind: dataset\nname: d\nsynthetic: {}\n", 0, "kind: found dataset, allowed: model"),
    ],
)
def test_a_wrong_manifest_is_refused_at_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    path = tmp_path / "m.yml"
    path.write_text(text)
    with pytest.raises(Misused) as raised:
        request(str(path))
    place = f"{path}:{line}: " if line else f"{path}: "
    assert place in str(raised.value)
    assert said in str(raised.value)


def test_every_fault_of_a_manifest_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.yml"
    path.write_text(_MINE.replace("decode", "decod").replace("'>=1'", "'=>1'"))
    with pytest.raises(Misused) as raised:
        request(str(path))
    assert [line.split(":")[1] for line in str(raised.value).splitlines()] == ["3", "8"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misused, match=r"none\.yml"):
        request(str(tmp_path / "none.yml"))


def test_a_dataset_s_file_is_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "d.yml"
    path.write_text("name: mine\nsynthetic: {samples: 3}\n")
    dataset = request("tiny", "--dataset", str(path)).dataset
    assert isinstance(dataset, DatasetManifest)
    assert (dataset.kind, dataset.name) == ("dataset", "mine")


@pytest.mark.parametrize(("text", "said"), [("[1]", "must hold a map"), ("{a", "line 1")])
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(Misused, match=said) as raised:
        read_map(path)
    assert str(path) in str(raised.value)


def test_collectors_are_switched_by_name() -> None:
    texts = ["nvml=off", "markers", "resource=rate_hz=50", "perf=events=cycles+instructions"]
    assert collectors_of(texts) == {
        "nvml": False,
        "markers": True,
        "resource": {"rate_hz": 50},
        "perf": {"events": "cycles+instructions"},
    }


def test_a_collector_without_a_name_is_no_switch() -> None:
    with pytest.raises(Misused, match="NAME=off"):
        collectors_of(["=off"])
