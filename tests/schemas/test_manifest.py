"""Manifests: the papers' listings parse as they stand, and what cannot be is named."""

from typing import Any

import pytest

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.manifest import DatasetManifest, ModelManifest, Step, StepField, Synthetic, step_of
from schemas.publishing import PublishManifest

_MODEL = {"name": "m", "version": "1", "framework": {"name": "f"}, "inputs": [], "outputs": []}


def steps_of(*steps: Any) -> tuple[StepField, ...]:
    model = parse(ModelManifest, _MODEL | {"inputs": [{"type": "image", "steps": list(steps)}]})
    return model.inputs[0].steps


@pytest.mark.parametrize(
    "written",
    [
        {"resize": None, "dimensions": [3, 4]},
        {"resize": {"dimensions": [3, 4]}},
        {"operator": "resize", "parameters": {"dimensions": [3, 4]}},
    ],
)
def test_a_step_may_be_written_in_three_ways(written: dict[str, Any]) -> None:
    assert steps_of(written) == (Step(operator="resize", parameters={"dimensions": [3, 4]}),)


def test_a_step_s_name_alone_is_a_step() -> None:
    assert steps_of("softmax", {"softmax": None}) == (Step(operator="softmax"),) * 2


@pytest.mark.parametrize("written", [{"resize": 5}, {"resize": {"a": 1}, "method": "x"}])
def test_a_step_with_two_meanings_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="first key names its operator"):
        step_of(written)
    with pytest.raises(MalformedMessage, match=r"inputs\.0\.steps\.0"):
        steps_of(written)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({"kind": "model", **_MODEL, "inputs": [{}]}, "manifest.inputs.0.type"),
        ({"kind": "dataset", "name": "d", "samples": [{"sha256": 5}]}, "manifest.samples.0.sha256"),
        ({"kind": "framework", "name": "f"}, "manifest.version"),
        ({"kind": "scenario"}, "manifest.name"),
        ({"name": "m"}, "manifest"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_named(manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(PublishManifest, {"manifest": manifest})
    assert raised.value.field == field


@pytest.mark.parametrize("value", [True, "1"])
@pytest.mark.parametrize("name", ["seed", "samples", "low", "high"])
def test_a_number_of_a_manifest_is_a_number(name: str, value: object) -> None:
    dataset = {"kind": "dataset", "name": "d", "synthetic": {"shape": [2], name: value}}
    with pytest.raises(MalformedMessage) as refused:
        parse(DatasetManifest, dataset)
    assert refused.value.field == f"synthetic.{name}"
    dataset["synthetic"] = {"shape": [value]}
    with pytest.raises(MalformedMessage) as refused:
        parse(DatasetManifest, dataset)
    assert refused.value.field == "synthetic.shape.0"


@pytest.mark.parametrize("samples", [0, 1_000_001])
def test_made_samples_are_bounded(samples: int) -> None:
    with pytest.raises(MalformedMessage) as raised:
        parse(DatasetManifest, {"name": "d", "synthetic": {"shape": [4], "samples": samples}})
    assert raised.value.field == "synthetic.samples"
    assert Synthetic(shape=(4,)).samples == 64
