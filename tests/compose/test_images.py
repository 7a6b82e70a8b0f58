"""The images that compose, framework manifests and the Dockerfile name are the same; no engine."""

import re
from typing import Any

import pytest
import yaml

from mlscope.manifests.folders import read_manifests
from schemas.manifest import FrameworkManifest
from tests.compose.conftest import ROOT

DEFAULT = "onnxruntime"
IMAGE = re.compile(r"mlscope:0\.1\.0(?:-(?P<target>.+))?")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())[
    "services"
]
OWN = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
STAGES = {
    stage.splitlines()[0]: stage
    for stage in re.split(r"^FROM \S+ AS ", DOCKERFILE, flags=re.MULTILINE)
}


def target_of(image: str) -> str:
    """Return the stage of the Dockerfile that an image is built from, by its tag."""
    match = IMAGE.fullmatch(image)
    assert match, image
    return match["target"] or DEFAULT


def test_each_framework_s_images_are_stages_of_the_dockerfile() -> None:
    frameworks = [
        manifest
        for manifest in read_manifests(ROOT / "manifests")
        if isinstance(manifest, FrameworkManifest)
    ]
    assert len(frameworks) == 6
    for manifest in frameworks:
        images = {name for kinds in manifest.containers.values() for name in kinds.values()}
        assert images, manifest.name
        assert {target_of(image) for image in images} <= set(STAGES)


@pytest.mark.parametrize("name", OWN)
def test_a_service_is_built_from_the_stage_of_its_image(name: str) -> None:
    assert OWN[name]["build"]["target"] == target_of(OWN[name]["image"])


@pytest.mark.parametrize("name", [name for name in OWN if name.startswith("agent")])
def test_an_agent_says_which_image_it_runs_in(name: str) -> None:
    assert OWN[name]["environment"]["MLSCOPE_AGENT_IMAGE"] == OWN[name]["image"]
    assert OWN[name].get("profiles", ["agent"]) == [name.removeprefix("agent-")]


def test_one_variable_pins_the_base_of_all_images() -> None:
    bases = re.findall(r"^FROM (\S+) AS ", DOCKERFILE, re.MULTILINE)
    assert set(bases) - set(STAGES) == {"${PYTHON_IMAGE}"}
    assert DOCKERFILE.index("\nARG PYTHON_IMAGE=python:") < DOCKERFILE.index("\nFROM ")


def test_no_image_runs_as_root() -> None:
    for target in {service["build"]["target"] for service in OWN.values()}:
        assert "\nUSER mlscope\n" in STAGES[target]


def test_every_service_can_be_traced() -> None:
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', STAGES["base"])
    assert {"services", "telemetry"} <= set(extras.split(","))


@pytest.mark.parametrize("target", ["pytorch", "pytorch-gpu"])
def test_images_of_pytorch_open_the_models_of_torchvision_and_timm(target: str) -> None:
    (extras,) = re.findall(r"/mlscope\[([\w,]+)\]", STAGES[target])
    assert {"pytorch", "vision"} <= set(extras.split(","))


def test_packages_of_models_are_pinned_beside_their_framework() -> None:
    pinned = set(re.findall(r"^(\S+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {"torch", "torchvision", "timm", "efficientnet-lite-pytorch"} <= pinned


def test_the_gpu_is_reserved() -> None:
    (device,) = OWN["agent-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
