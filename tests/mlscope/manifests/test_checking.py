"""What parses and is wrong all the same."""

from typing import Any

import pytest

from mlscope.manifests.checking import faults_in
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    ModelManifest,
    ScenarioManifest,
)

FILE = {"path": "a.png", "sha256": "00"}


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({}, "samples.1"),
        ({**FILE, "inputs": {"x": FILE}}, "samples.1"),
        ({"path": "a.png"}, "samples.1.sha256"),
    ],
)
def test_a_sample_is_one_checked_file_or_one_for_each_input(
    sample: dict[str, Any], field: str
) -> None:
    dataset = DatasetManifest.model_validate({"name": "d", "samples": [FILE, sample]})
    (fault,) = faults_in(dataset)
    assert fault.field == field


def test_what_is_right_has_no_fault() -> None:
    samples = [FILE, {"inputs": {"x": FILE, "y": FILE}}]
    assert not list(faults_in(DatasetManifest.model_validate({"name": "d", "samples": samples})))
    assert not list(faults_in(ScenarioManifest(name="s")))


MODEL: dict[str, Any] = {
    "kind": "model",
    "name": "m",
    "version": "1.0.0",
    "framework": {"name": "onnxruntime"},
    "inputs": [{"type": "image", "layer_name": "x", "steps": ["decode"]}],
    "outputs": [{"type": "classification", "layer_name": "y"}],
    "model": {"graph_path": "m.onnx", "checksum": f"sha256:{'0' * 64}"},
}
INPUT, OUTPUT = MODEL["inputs"][0], MODEL["outputs"][0]
SCORES = {"type": "raw", "layer_name": "scores"}


def _fault_of(**changes: Any) -> str:
    (fault,) = faults_in(ModelManifest.model_validate({**MODEL, **changes}))
    assert fault.found
    assert fault.allowed
    return fault.field


def test_a_whole_model_has_no_fault() -> None:
    assert not list(faults_in(ModelManifest.model_validate(MODEL)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": "abc"}, "version"),
        ({"name": " "}, "name"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [INPUT, {**INPUT, "steps": []}]}, "inputs.1.layer_name"),
        ({"inputs": [{**INPUT, "element_type": "flaot32"}]}, "inputs.0.element_type"),
        ({"inputs": [{**INPUT, "shape": [-1, 0]}]}, "inputs.0.shape"),
        ({"inputs": [{**INPUT, "steps": ["normalize", "decode"]}]}, "inputs.0.steps.1"),
        (
            {"outputs": [{**SCORES, "steps": [{"boxes": {"scores": "score"}}]}]},
            "outputs.0.steps.0.boxes.scores",
        ),
        (
            {"outputs": [{**OUTPUT, "steps": [{"topk": {"labels": "names.txt"}}]}]},
            "outputs.0.steps.0.topk.labels",
        ),
    ],
)
def test_what_no_model_has_is_told(changes: dict[str, Any], field: str) -> None:
    assert _fault_of(**changes) == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"checksum": "sha256:zz"}, "model.checksum"),
        ({"graph_path": "../../etc/passwd"}, "model.graph_path"),
        ({"graph_path": "s3://bucket/m.onnx"}, "model.graph_path"),
        ({"addresses": {"m.onnx": "../m.onnx"}}, "model.graph_path"),
        ({"assets": {"names.txt": "md5:1"}}, "model.assets.names.txt"),
        ({"graph_path": ""}, "model"),
    ],
)
def test_a_file_nobody_can_bring_is_told(changes: dict[str, Any], field: str) -> None:
    assert _fault_of(model={**MODEL["model"], **changes}) == field


def test_a_variant_brings_the_files_of_the_steps_too() -> None:
    named = [{**OUTPUT, "steps": [{"topk": {"labels": "names.txt"}}]}]
    own = {**MODEL["model"], "assets": {"names.txt": f"md5:{'0' * 32}"}}
    further = [{"name": "pytorch", "model": {**MODEL["model"], "graph_path": "m.pt"}}]
    (fault,) = faults_in(
        ModelManifest.model_validate(
            {**MODEL, "outputs": named, "model": own, "frameworks": further}
        )
    )
    assert "frameworks.0.model.assets" in fault.allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": []},
        {"model": {"archive": "m.tar", "archive_checksum": f"md5:{'0' * 32}"}},
        {"framework": {"name": "ours"}, "model": {}},
        {"outputs": [{**OUTPUT, "steps": [{"boxes": {"scores": "of the graph alone"}}]}]},
    ],
)
def test_what_only_the_model_can_tell_is_no_fault(changes: dict[str, Any]) -> None:
    assert not list(faults_in(ModelManifest.model_validate({**MODEL, **changes})))


@pytest.mark.parametrize("name", ["squad2", "imagenet_v2", "my_csv", "our_company_format"])
def test_a_reader_of_ones_own_may_be_known_elsewhere(name: str) -> None:
    source = {"address": "x", "reader": name}
    assert not list(faults_in(DatasetManifest.model_validate({"name": "d", "source": source})))


def test_other_machines_have_containers_too() -> None:
    containers = {"armv7l": {"cpu": "image:1"}, "arm64": {"fpga": "image:1", "cuda": "image:2"}}
    framework = FrameworkManifest(name="f", version="1.0", containers=containers)
    assert not list(faults_in(framework))


@pytest.mark.parametrize(
    "code", ["def fun(env, data:\n  return data", "x = 1", "\0", "(" * 5000 + ")" * 5000]
)
def test_code_without_its_function_is_told(code: str) -> None:
    assert _fault_of(inputs=[{"type": "image"}], preprocess=code) == "preprocess"


@pytest.mark.parametrize(
    "code", ["def fun(env, data):\n  return data", "fun = abs", "if 1:\n  fun = abs", "[[code]]"]
)
def test_code_with_its_function_and_placeholders_parse(code: str) -> None:
    model = {**MODEL, "inputs": [{"type": "image"}], "preprocess": code}
    assert not list(faults_in(ModelManifest.model_validate(model)))


@pytest.mark.parametrize(
    ("dataset", "field"),
    [
        ({}, "samples"),
        ({"source": {"address": "x", "reader": "imagefolder"}}, "source.reader"),
        ({"synthetic": {"element_type": "flaot32"}}, "synthetic.element_type"),
    ],
)
def test_a_dataset_nobody_can_read_is_told(dataset: dict[str, Any], field: str) -> None:
    (fault,) = faults_in(DatasetManifest.model_validate({"name": "d", **dataset}))
    assert fault.field == field


def test_containers_are_of_known_machines() -> None:
    containers = {"amd46": {"cpu": "image:1"}, "arm64": {"cpuu": "image:1"}}
    framework = FrameworkManifest(name="f", version="1.0", containers=containers)
    fields = [fault.field for fault in faults_in(framework)]
    assert fields == ["containers.amd46", "containers.arm64.cpuu"]


@pytest.mark.parametrize(
    ("side", "port"),
    [
        ("inputs", {"element_type": "int64", "range": [9, 9]}),
        ("inputs", {"element_type": "float32", "range": [0, 9]}),
        ("outputs", {"range": [0, 9]}),
    ],
)
def test_a_range_is_of_an_inputs_integers(side: str, port: dict[str, Any]) -> None:
    ports = [{"type": "raw", "layer_name": "y", **port}]
    assert _fault_of(**{side: ports}) == f"{side}.0.range"


def test_a_manifest_without_newer_fields_keeps_its_digest() -> None:
    model = ModelManifest.model_validate(MODEL)
    assert "range" not in model.model_dump(mode="json")["inputs"][0]
    assert "builder_version" not in model.model_dump(mode="json")["model"]
    bounded = {**INPUT, "type": "raw", "element_type": "int64", "range": [0, 9], "steps": []}
    model = ModelManifest.model_validate({**MODEL, "inputs": [bounded]})
    assert model.model_dump(mode="json")["inputs"][0]["range"] == [0, 9]
    assert not list(faults_in(model))
