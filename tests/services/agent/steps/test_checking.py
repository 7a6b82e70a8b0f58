"""Steps of a manifest are made to see whether they can be."""

from typing import Any

import pytest

from schemas.manifest import ModelManifest, ScenarioManifest
from services.agent.steps.checking import value_faults


def _model(*steps: Any) -> ModelManifest:
    value = {
        "name": "m",
        "version": "1.0.0",
        "framework": {"name": "onnxruntime"},
        "inputs": [{"type": "image", "steps": steps}],
        "outputs": [{"type": "tensor"}],
    }
    return ModelManifest.model_validate(value)


@pytest.mark.parametrize(
    ("step", "field"),
    [
        ({"resize": {"dimensions": [8, 8], "method": "bilnear"}}, "resize.method"),
        ({"resize": {"dimensions": "8x8"}}, "resize.dimensions"),
        ({"resize": {}}, "resize.dimensions"),
        ({"normalize": {"mean": "grey"}}, "normalize.mean"),
        ({"cast": {"element_type": "flaot32"}}, "cast.element_type"),
    ],
)
def test_a_value_no_step_can_use_is_told(step: dict[str, Any], field: str) -> None:
    (fault,) = value_faults(_model("decode", step))
    assert fault.field == f"inputs.0.steps.1.{field}"
    assert fault.allowed


@pytest.mark.parametrize(
    "step",
    [
        {"resize": {"dimensions": [8, 8]}},
        {"topk": {"labels": "names.txt"}},
        {"tokenize": {"vocabulary": "words.txt"}},
        {"resize": {"dimensions": "...", "method": "bilinear"}},
        {"resize": {"dimensionz": [8, 8]}},
        "sharpen",
    ],
)
def test_what_fits_or_is_told_elsewhere_is_not_told(step: Any) -> None:
    assert not list(value_faults(_model(step)))


def test_other_manifests_have_no_steps() -> None:
    assert not list(value_faults(ScenarioManifest(name="s")))
