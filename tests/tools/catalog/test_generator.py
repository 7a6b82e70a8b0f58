"""The shipped catalog is what its generator makes, and says of each model what packages know."""

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tools.catalog.__main__ import write
from tools.catalog.releases import first_releases
from tools.catalog.timm import bound_of, input_of, training_dataset_of, weights_of
from tools.catalog.torchvision import attributes_of, training_text

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


def manifests(source: str) -> list[dict[str, Any]]:
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
    for manifest in manifests("torchvision"):
        model, attributes = manifest["model"], manifest["attributes"]
        assert attributes["parameters"] > 0
        if model.get("weights") == "random":
            continue
        described += 1
        assert model["base_url"].startswith("https://")
        assert model["weights_checksum"].startswith("sha256-prefix:")
        assert attributes["gflops"] >= 0
        assert attributes["weights_megabytes"] > 0
        assert any(" on " in name for name in attributes), f"{manifest['name']}: no accuracy"
    assert described >= 100


WITHOUT_CHECKSUM = ("keras-mobilenet", "keras-mobilenetv2")
"""Keras brings their weights without a file_hash."""


def test_timm_s_and_keras_name_their_weights_and_parameters() -> None:
    for each in (*manifests("timm"), *manifests("keras")):
        model, attributes = each["model"], each["attributes"]
        assert isinstance(model, dict)
        assert isinstance(attributes, dict)
        assert attributes["parameters"] > 0
        if each["name"] not in WITHOUT_CHECKSUM:
            assert model.get("weights_checksum") or model.get("unverifiable"), each["name"]


def test_a_model_of_timm_names_the_release_that_first_had_it() -> None:
    for manifest in manifests("timm"):
        bound = bound_of(manifest["model"]["arguments"]["model_name"])
        assert manifest["model"].get("builder_version") == bound.get("builder_version")
        assert (manifest["version"] == "1.3.0") == bool(bound), manifest["name"]


def test_the_first_release_of_a_model_is_that_from_which_on_it_stays() -> None:
    models = {"1.0": {"a", "gone"}, "1.1": {"a", "b", "came"}, "1.2": {"a", "b"}}
    models["1.3"] = {"a", "b", "came"}
    assert first_releases(models) == {"b": "1.1", "came": "1.3"}


def weights(name: str, *evaluated: str) -> SimpleNamespace:
    """Return weights such as torchvision's, with a figure for each data set."""
    return SimpleNamespace(name=name, meta={"_metrics": {each: {"map": 1} for each in evaluated}})


@pytest.mark.parametrize(
    ("given", "trained", "told"),
    [
        (weights("IMAGENET1K_V2", "ImageNet-1K"), "ImageNet-1K", "trained on ImageNet-1K"),
        (weights("COCO_V1", "COCO-val2017"), "COCO", "trained on COCO, evaluated on COCO-val2017"),
        (weights("C_T_V2", "Sintel-Test", "Kitti"), "", "evaluated on Sintel-Test, Kitti"),
        (weights("IMAGENET1K_SWAG_E2E_V1", "ImageNet-1K"), "", "evaluated on ImageNet-1K"),
        (weights("OWN_V1"), "", "with its default weights"),
    ],
)
def test_what_is_evaluated_on_is_not_what_was_learnt_from(
    given: SimpleNamespace, trained: str, told: str
) -> None:
    assert (attributes_of(given)["training_dataset"], training_text(given)) == (trained, told)


def test_weights_with_a_license_of_their_own_have_it() -> None:
    licenses = {str(each["name"]): str(each["license"]) for each in manifests("torchvision")}
    own = {name for name, license_ in licenses.items() if license_ != "BSD-3-Clause"}
    assert own == {"torchvision-regnet-y-128gf", "torchvision-vit-h-14"}
    assert all("SWAG" in licenses[name] for name in own)


@pytest.mark.parametrize(
    ("tag", "learnt"),
    [
        ("fb_in1k", "ImageNet-1K"),
        ("dist_in22k_ft_in1k", "ImageNet-22K, ImageNet-1K"),
        ("in1k_ft_in22k_in1k", "ImageNet-1K, ImageNet-22K"),
        ("sbb2_e200_in12k_ft_in1k", "ImageNet-12K, ImageNet-1K"),
        ("mae_in1k_ft_in1k", "ImageNet-1K"),
        ("ssld_in1k", ""),
        ("", ""),
    ],
)
def test_timm_s_training_sets_are_the_tag_s(tag: str, learnt: str) -> None:
    assert training_dataset_of(tag) == learnt


@pytest.mark.parametrize(
    ("mode", "operators"),
    [
        ("center", ["decode", "resize", "crop", "normalize", "cast"]),
        ("squash", ["decode", "resize", "normalize", "cast"]),
    ],
)
def test_what_timm_squashes_is_not_cropped(mode: str, operators: list[str]) -> None:
    config = SimpleNamespace(
        input_size=(3, 512, 512),
        crop_pct=1.0,
        crop_mode=mode,
        mean=(0, 0, 0),
        std=(1, 1, 1),
        interpolation="bicubic",
    )
    steps = input_of(config)["steps"]
    assert [next(iter(each)) for each in steps] == operators
    assert steps[1]["dimensions"] == [3, 512, 512]


RELEASE = "https://github.com/huggingface/pytorch-image-models/releases/download/v0.1/"


@pytest.mark.parametrize(
    ("url", "changes_names"),
    [
        (f"{RELEASE}net-0123abcd.pth", True),
        (f"{RELEASE}net.pth", False),
        ("https://elsewhere.org/net-0123abcd.pth", False),
        (None, False),
    ],
)
def test_what_timm_pins_not_is_a_branch_that_nobody_verifies(
    url: str | None, changes_names: bool
) -> None:
    found = weights_of(SimpleNamespace(url=url, hf_hub_id="timm/net"), changes_names=changes_names)
    assert found["base_url"] == "hf://timm/net@main/"
    assert "no commit and no checksum" in found["unverifiable"]


def test_what_timm_pins_is_named_by_its_digits() -> None:
    config = SimpleNamespace(url=f"{RELEASE}net-0123abcd.pth", hf_hub_id="timm/net")
    assert weights_of(config, changes_names=False) == {
        "base_url": RELEASE,
        "weights_path": "net-0123abcd.pth",
        "weights_checksum": "sha256-prefix:0123abcd",
    }
