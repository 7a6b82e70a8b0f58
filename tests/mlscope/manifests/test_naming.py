"""Names in manifests that nothing can ever match."""

from typing import Any

import pytest

from mlscope.manifests.naming import naming_faults
from schemas.manifest import FrameworkManifest, ModelManifest, ScenarioManifest
from tests.mlscope.manifests.test_checking import INPUT, MODEL, OUTPUT


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"name": "my model"}, "name", "my-model"),
        ({"name": "net:1.0"}, "name", "net-1.0"),
        ({"name": "n" * 129}, "name", "128"),
        ({"framework": {"name": "onnxruntim"}}, "framework.name", "onnxruntime?"),
        ({"framework": "onnxruntim:>=1.20"}, "framework.name", "onnxruntime?"),
        ({"framework": {"name": ""}}, "framework.name", "pytorch"),
        ({"frameworks": [{"name": " "}]}, "frameworks.0.name", "pytorch"),
        ({"inputs": [{**INPUT, "type": "tensr"}]}, "inputs.0.type", "tensor?"),
        ({"outputs": [{**OUTPUT, "type": ""}]}, "outputs.0.type", "image"),
    ],
)
def test_a_name_that_nothing_matches_is_a_fault(
    changes: dict[str, Any], field: str, advice: str
) -> None:
    (fault,) = naming_faults(ModelManifest.model_validate({**MODEL, **changes}))
    assert fault.field == field
    assert advice in fault.allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"framework": {"name": "fpga"}},
        {"framework": {"name": "onnxruntime-gpu"}},
        {"framework": "tflite"},
        {"inputs": [{**INPUT, "type": "point_cloud"}]},
    ],
)
def test_a_name_of_its_own_is_none(changes: dict[str, Any]) -> None:
    assert not list(naming_faults(ModelManifest.model_validate({**MODEL, **changes})))


def test_a_framework_that_an_agent_has_is_spelt_right() -> None:
    model = ModelManifest.model_validate({**MODEL, "framework": {"name": "onnxruntim"}})
    assert not list(naming_faults(model, ("onnxruntime", "onnxruntim")))


def test_a_name_in_a_request_may_have_spaces() -> None:
    model = ModelManifest.model_validate({**MODEL, "name": "my trace: two"})
    assert not list(naming_faults(model, is_published=False))


def test_other_kinds_have_names_too() -> None:
    (fault,) = naming_faults(FrameworkManifest(name="pytorhc", version="2.0"))
    assert fault.allowed.startswith("pytorch?")
    (fault,) = naming_faults(ScenarioManifest(name="two words"))
    assert fault.field == "name"
