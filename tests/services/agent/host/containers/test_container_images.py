"""What an agent says of images that it can't start: each reason has the way out."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from services.agent.errors import EngineFailed
from services.agent.host.containers.engine import Engine
from services.agent.host.containers.images import (
    AllowedImage,
    allowed_images,
    container_facts,
    engine_architecture,
)
from services.agent.link.fingerprint import link_fingerprint
from tests.services.agent.builders import MANIFESTS
from tests.services.agent.host.containers.engines import DIGEST, IMAGE, READY, FakeEngine

ALLOWED = AllowedImage(IMAGE, "onnxruntime", "cpu")


def said(link: str, *frameworks: str) -> str:
    """Return what an image of an mlscope says, with runtimes of `frameworks`."""
    runtimes = [{"framework": name, "version": "1"} for name in frameworks]
    hardware = {"hostname": "h", "architecture": "x86_64"}
    described: dict[str, Any] = {"agent": "within", "incarnation": "", "mlscope_version": "0.0.9"}
    described |= {"hardware": hardware, "runtimes": runtimes}
    return json.dumps({"link": link, "announcement": described})


def facts(folder: Path, image: dict[str, Any] | None) -> Any:
    """Return what is told of an image of these properties, None for a missing one."""
    fake = FakeEngine(folder)
    fake.has(images={} if image is None else {IMAGE: {**READY, **image}})
    return container_facts(Engine(str(fake.program), is_podman=False), ALLOWED, (), ())


NO_MODULE = "No module named 'services.agent.host.containers'"
REASONS = {
    "missing": (None, "is not on this machine: `docker pull mlscope:0.1.0`, or build it"),
    "architecture": ({"architecture": "riscv64"}, "is for riscv64, this machine is"),
    "no mlscope": ({"fails": NO_MODULE}, "has no mlscope, or one too old to be started"),
    "broken": ({"fails": "exec format error"}, "can't be started: exec format error"),
    "unreadable": ({"says": "hello"}, "has an mlscope whose answer can't be read"),
    "too old": ({"says": said("x", "onnxruntime")}, "has mlscope 0.0.9 and the agent is"),
    "framework": (
        {"says": said(link_fingerprint(), "jax")},
        "is without onnxruntime (it has jax): build it",
    ),
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the images here are for amd64")
@pytest.mark.parametrize("case", REASONS)
def test_an_image_that_can_t_be_started_says_why(tmp_path: Path, case: str) -> None:
    image, reason = REASONS[case]
    assert facts(tmp_path, image).reason.startswith(reason)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the images here are for amd64")
def test_an_image_of_this_mlscope_says_what_it_has(tmp_path: Path) -> None:
    told = facts(tmp_path, {})
    assert (told.reason, told.digest) == ("", DIGEST)
    assert "onnxruntime" in {runtime.framework for runtime in told.runtimes}
    assert told.collectors
    assert told.python_version == platform.python_version()


def test_an_engine_that_does_not_answer_says_so(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path)
    fake.has(unreachable=True)
    engine = Engine(str(fake.program), is_podman=False)
    with pytest.raises(EngineFailed, match="container engine docker: Cannot connect"):
        engine.version()


def test_an_engine_that_is_not_installed_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="podman: not on the PATH of the agent"):
        Engine.named("podman", str(tmp_path))


def test_images_are_those_of_the_framework_manifests_for_this_machine() -> None:
    images = {own.image for own in allowed_images(MANIFESTS, has_gpu=False)}
    assert {IMAGE, "mlscope:0.1.0-pytorch"} <= images
    assert not any(image.endswith("-gpu") for image in images)
    with_gpu = {own.image: own.device for own in allowed_images(MANIFESTS, has_gpu=True)}
    assert with_gpu["mlscope:0.1.0-pytorch-gpu"] == "gpu"
    assert engine_architecture() in ("amd64", "arm64", platform.machine())


def test_the_link_s_fingerprint_does_not_depend_on_words() -> None:
    assert len(link_fingerprint()) == 64
