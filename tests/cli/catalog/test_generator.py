"""The shipped catalog is what its generator makes, and says of each model what packages know."""

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from cli.catalog.__main__ import write
from cli.catalog.timm import _weights

MODELS = Path(__file__).parents[3] / "manifests" / "models"
TASKS = {
    "image classification",
    "object detection",
    "semantic segmentation",
    "instance segmentation",
    "image enhancement",
    "recommendation",
    "optical character recognition",
    "audio classification",
    "voice activity detection",
    "text embedding",
}


def manifests(source: str) -> list[dict[str, object]]:
    """Return a source's manifests as they are written."""
    return [yaml.safe_load(path.read_text()) for path in sorted((MODELS / source).glob("*.yml"))]


@pytest.mark.parametrize("source", ["networks", "packages"])
def test_the_shipped_manifests_are_the_generator_s(source: str, tmp_path: Path) -> None:
    """Of the packages that are installed with mlscope itself; torchvision's, timm's are not."""
    copy = tmp_path / "models"
    shutil.copytree(MODELS / source, copy / source)
    shutil.copytree(MODELS / "efficientnet_lite0", copy / "efficientnet_lite0")
    for path in (copy / source).glob("*.yml"):
        path.write_text("altered")
    assert write(source, copy) == len(list((MODELS / source).glob("*.yml")))
    for path in (MODELS / source).iterdir():
        assert (copy / source / path.name).read_bytes() == path.read_bytes(), path.name


def test_every_task_has_models_and_raw_tensors_are_inputs() -> None:
    every = [yaml.safe_load(path.read_text()) for path in MODELS.rglob("*.yml")]
    assert Counter(each["task"] for each in every).keys() >= TASKS
    inputs = {port["type"] for each in every for port in each["inputs"]}
    assert {"raw", "image", "audio", "text"} <= inputs


def test_torchvision_s_are_described_in_full() -> None:
    described = 0
    for each in manifests("torchvision"):
        model, attributes = each["model"], each["attributes"]
        assert isinstance(model, dict)
        assert isinstance(attributes, dict)
        assert attributes["parameters"] > 0
        if model.get("weights") == "random":
            continue
        described += 1
        assert model["base_url"].startswith("https://")
        assert model["weights_checksum"].startswith("sha256-prefix:")
        assert attributes["gflops"] >= 0
        assert attributes["weights_megabytes"] > 0
        assert any(" on " in name for name in attributes), f"{each['name']}: no accuracy"
    assert described >= 100


def test_timm_s_and_keras_name_their_weights_and_parameters() -> None:
    for each in (*manifests("timm"), *manifests("keras")):
        model, attributes = each["model"], each["attributes"]
        assert isinstance(model, dict)
        assert isinstance(attributes, dict)
        assert attributes["parameters"] > 0
        is_sure = model.get("weights_checksum") or model.get("weights") == "random"
        assert is_sure or model["unverifiable"], each["name"]


RELEASE = "https://github.com/huggingface/pytorch-image-models/releases/download/v0.1/"


@pytest.mark.parametrize(
    ("url", "is_converted"),
    [
        (f"{RELEASE}net-0123abcd.pth", True),
        (f"{RELEASE}net.pth", False),
        ("https://elsewhere.org/net-0123abcd.pth", False),
        (None, False),
    ],
)
def test_what_timm_pins_not_is_a_branch_that_nobody_verifies(
    url: str | None, is_converted: bool
) -> None:
    found = _weights(SimpleNamespace(url=url, hf_hub_id="timm/net"), is_converted=is_converted)
    assert found["base_url"] == "hf://timm/net@main/"
    assert "no commit and no checksum" in found["unverifiable"]


def test_what_timm_pins_is_named_by_its_digits() -> None:
    config = SimpleNamespace(url=f"{RELEASE}net-0123abcd.pth", hf_hub_id="timm/net")
    assert _weights(config, is_converted=False) == {
        "base_url": RELEASE,
        "weights_path": "net-0123abcd.pth",
        "weights_checksum": "sha256-prefix:0123abcd",
    }
