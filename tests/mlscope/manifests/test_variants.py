"""A model on several frameworks: each variant stands alone."""

import pytest

from mlscope.manifests.errors import NoVariant
from mlscope.manifests.reading import read_manifest_text
from mlscope.manifests.variants import frameworks_of, variant_for, variants_of
from schemas.manifest import ModelManifest

TEXT = """\
name: net
version: 1.0.0
frameworks:
  - name: onnxruntime
    version: ">=1.16"
    model: {graph_path: net.onnx, checksum: "md5:00000000000000000000000000000000"}
  - name: tensorflow
    version: ">=2.0"
    model: {graph_path: net, format: saved_model}
    layer_names: {images: serving_images}
    layouts: {images: NHWC}
    options: {threads: 1}
inputs:
  - type: image
    layer_name: images
    shape: [-1, 3, 8, 6]
    steps:
      - decode:
      - cast:
        data_layout: NCHW
outputs:
  - type: raw
    layer_name: logits
"""


@pytest.fixture
def model() -> ModelManifest:
    read = read_manifest_text(TEXT, "net.yml", "model")
    assert isinstance(read, ModelManifest)
    return read


def test_the_first_of_several_frameworks_is_the_models_own(model: ModelManifest) -> None:
    assert (model.framework.name, model.model.graph_path) == ("onnxruntime", "net.onnx")
    assert [each.name for each in frameworks_of(model)] == ["onnxruntime", "tensorflow"]


def test_variants_stand_alone(model: ModelManifest) -> None:
    first, second = variants_of(model)
    assert (first.frameworks, second.frameworks) == ((), ())
    assert first.inputs == model.inputs
    assert (second.framework.name, second.framework.version) == ("tensorflow", ">=2.0")
    assert (second.model.format, second.options) == ("saved_model", {"threads": 1})


def test_a_variant_has_its_own_names_and_layout(model: ModelManifest) -> None:
    (port,) = variant_for(model, "TensorFlow").inputs
    assert (port.layer_name, port.shape) == ("serving_images", (-1, 8, 6, 3))
    assert [step.parameters for step in port.steps] == [{}, {"data_layout": "NHWC"}]


def test_a_layout_there_and_back_is_the_same(model: ModelManifest) -> None:
    there = variant_for(model, "tensorflow")
    back = {"name": "x", "layouts": {"serving_images": "NCHW"}}
    again = there.model_validate({**there.model_dump(), "frameworks": [back]})
    assert variant_for(again, "x").inputs[0].shape == (-1, 3, 8, 6)


def test_a_framework_without_a_variant_is_refused_with_the_known(model: ModelManifest) -> None:
    with pytest.raises(NoVariant) as caught:
        variant_for(model, "jax")
    assert caught.value.frameworks == ("onnxruntime", "tensorflow")


def test_steps_read_other_outputs_by_the_variant_s_names() -> None:
    boxes = {"boxes": {"scores": "scores", "count": "elsewhere", "score": 0.5}}
    outputs = [
        {"type": "boundingbox", "layer_name": "boxes", "steps": [boxes]},
        {"type": "raw", "layer_name": "scores"},
    ]
    own = {"name": "tensorflow", "layer_names": {"scores": "Identity:1"}}
    model = ModelManifest.model_validate(
        {
            "name": "detector",
            "version": "1.0.0",
            "framework": {"name": "onnxruntime"},
            "frameworks": [own],
            "inputs": [{"type": "image"}],
            "outputs": outputs,
        }
    )
    (step,) = variant_for(model, "tensorflow").outputs[0].steps
    assert step.parameters == {"scores": "Identity:1", "count": "elsewhere", "score": 0.5}
    (first,) = variant_for(model).outputs[0].steps
    assert first.parameters["scores"] == "scores"
