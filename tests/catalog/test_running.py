"""Over sixty catalog models of every task, in every framework of a CPU, on small inputs."""

import pytest

from mlscope.manifests.variants import variant_for
from tests.catalog.answering import SOURCES, catalog_names, model_of
from tests.catalog.children import told_by

TORCHVISION = [
    "alexnet:64",
    "convnext-tiny:64",
    "densenet121:64",
    "efficientnet-b0:64",
    "googlenet:64",
    "inception-v3:80",
    "mnasnet0-5:64",
    "mobilenet-v2:64",
    "mobilenet-v3-small:64",
    "regnet-y-400mf:64",
    "resnet18:64",
    "resnet50:64",
    "shufflenet-v2-x0-5:64",
    "squeezenet1-1:64",
    "swin-t:64",
    "vit-b-32",
    "quantized-resnet18:64",
]
DENSE = [
    "fasterrcnn-mobilenet-v3-large-320-fpn:96",
    "retinanet-resnet50-fpn:96",
    "fcos-resnet50-fpn:96",
    "ssdlite320-mobilenet-v3-large",
    "maskrcnn-resnet50-fpn:96",
    "keypointrcnn-resnet50-fpn:96",
    "lraspp-mobilenet-v3-large:64",
    "fcn-resnet50:64",
    "deeplabv3-mobilenet-v3-large:64",
    "raft-small",
    "r3d-18",
]
TIMM = [
    "test-byobnet",
    "test-convnext",
    "test-efficientnet",
    "test-nfnet",
    "test-resnet",
    "test-vit",
    "deit-tiny-patch16-224",
    "ghostnet-100:64",
    "mobilenetv3-small-050:64",
    "lcnet-050:64",
    "regnetx-002:64",
    "resnet10t:64",
    "mobilevit-xxs:64",
    "efficientformerv2-s0",
    "starnet-s1:64",
    "xcit-nano-12-p16-224",
    "pvt-v2-b0:64",
    "hrnet-w18-small:64",
    "fastvit-t8:64",
]
KERAS = ["mobilenet:64", "mobilenetv3small:64", "efficientnetb0:64", "resnet50:64", "nasnetmobile"]
PACKAGES = [
    "efficientnet-lite0",
    "identity",
    "tiny-cnn",
    "rapidocr-text-detection",
    "rapidocr-text-recognition",
    "rapidocr-text-direction",
    "magika",
    "silero-vad",
    "silero-vad-any-rate",
    "silero-vad-half",
    "silero-vad-openvino",
]
OPENVINO = ["rapidocr-text-direction", "rapidocr-text-recognition", "magika", "silero-vad-openvino"]
NETWORKS = {
    framework: [each for each in catalog_names("networks") if each.endswith(framework)]
    for framework in ("pytorch", "jax")
}
GROUPS = {
    "torchvision": [f"torchvision-{each}" for each in TORCHVISION],
    "dense": [f"torchvision-{each}" for each in DENSE],
    "timm": [f"timm-{each}" for each in TIMM],
    "keras": [f"keras-{each}" for each in KERAS],
    "onnxruntime": PACKAGES,
    "openvino": [f"{each}@openvino" for each in OPENVINO],
    "litert": [each for each in catalog_names("packages") if each.startswith("mediapipe")],
    "networks": NETWORKS["pytorch"],
    "jax": NETWORKS["jax"],
}
"""What runs in one process: of each its name, its framework where not the first, its side."""


def named(word: str) -> str:
    return word.partition(":")[0].partition("@")[0]


SHORT = {
    # One process for all that import PyTorch: its import takes most of such a process's time.
    "pytorch": [
        "torchvision-mobilenet-v3-small:64",
        "torchvision-quantized-resnet18:64",
        "torchvision-ssdlite320-mobilenet-v3-large",
        "timm-test-vit",
        *NETWORKS["pytorch"][:1],
    ],
    "others": [
        "efficientnet-lite0",
        "identity",
        "tiny-cnn",
        "magika",
        "rapidocr-text-direction@openvino",
        *GROUPS["litert"][:2],
    ],
}
"""Of each group what every test run takes; the rest is run by `make test-all`."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", [pytest.param("pytorch", marks=pytest.mark.long), "others"])
def test_some_models_answer_each_sample_by_itself(group: str) -> None:
    assert_answers(SHORT[group])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", GROUPS)
def test_models_answer_each_sample_by_itself(group: str) -> None:
    assert_answers(GROUPS[group])


def assert_answers(words: list[str]) -> None:
    """Check that each model answers finite numbers, each sample by itself, in its outputs."""
    told = told_by("running", *words)
    assert list(told) == words
    for word, found in told.items():
        assert "error" not in found, f"{word}: {found['error']}"
        assert found["finite"], word
        assert found["kept_apart"], word
        variant = variant_for(model_of(named(word)), word.partition("@")[2])
        outputs = {port.layer_name for port in variant.outputs}
        assert outputs <= set(found["outputs"]), f"{word} has {list(found['outputs'])}"


def test_they_are_over_sixty_and_of_every_task_and_framework() -> None:
    run = {named(word) for group in GROUPS.values() for word in group}
    models = [model_of(each) for each in run]
    every = [model_of(each) for source in SOURCES for each in catalog_names(source)]
    assert len(run) >= 60
    # What embeds texts has published weights only: test_answers.py runs it.
    assert {each.task for each in every} - {each.task for each in models} == {"text embedding"}
    assert {each.framework.name for each in models} == {each.framework.name for each in every}
