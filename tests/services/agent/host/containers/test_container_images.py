"""What an agent says of images that it can't start: each reason has the way out."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from schemas.agent import ContainerFacts
from services.agent.errors import EngineFailed
from services.agent.host.containers import engine as engine_module
from services.agent.host.containers.engine import Engine, is_podman
from services.agent.host.containers.images import (
    AllowedImage,
    Asker,
    ImageAnswer,
    allowed_images,
    image_answer,
)
from services.agent.link import fingerprint
from services.agent.link.fingerprint import link_fingerprint
from services.agent.link.messages import message_schemas
from tests.services.agent.builders import MANIFESTS
from tests.services.agent.host.containers.engines import (
    DIGEST,
    IMAGE,
    READY,
    FakeEngine,
    a_framework,
)

ALLOWED = AllowedImage(IMAGE, ("onnxruntime",), ("cpu",))
ASKER = Asker(Path("/agents/a1"))


def said(link: str, *frameworks: str) -> str:
    """Return what an image of an mlscope says, with runtimes of `frameworks`."""
    runtimes = [{"framework": name, "version": "1"} for name in frameworks]
    hardware = {"hostname": "h", "architecture": "x86_64"}
    described: dict[str, Any] = {"agent": "within", "incarnation": "", "mlscope_version": "0.0.9"}
    described |= {"hardware": hardware, "runtimes": runtimes}
    return json.dumps({"link": link, "announcement": described})


def facts(folder: Path, image: dict[str, Any] | None) -> ContainerFacts:
    """Return what is told of an image of these properties, None for a missing one."""
    fake = FakeEngine(folder)
    fake.has(images={} if image is None else {IMAGE: {**READY, **image}})
    return answered(fake).facts


def engine_of(fake: FakeEngine) -> Engine:
    """Return the engine of this program."""
    return Engine(str(fake.program), is_podman=False)


def answered(fake: FakeEngine, allowed: AllowedImage = ALLOWED) -> ImageAnswer:
    """Return what an image of an engine answers."""
    return image_answer(engine_of(fake), allowed, ASKER)


def an_engine(folder: Path, **image: Any) -> FakeEngine:
    """Return an engine whose image has these properties."""
    fake = FakeEngine(folder)
    fake.has(images={IMAGE: {**READY, **image}})
    return fake


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


@pytest.mark.parametrize("case", REASONS)
def test_an_image_that_can_t_be_started_says_why(tmp_path: Path, case: str) -> None:
    image, reason = REASONS[case]
    assert facts(tmp_path, image).reason.startswith(reason)


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
    with_gpu = {own.image: own.devices for own in allowed_images(MANIFESTS, has_gpu=True)}
    assert with_gpu["mlscope:0.1.0-pytorch-gpu"] == ("gpu",)


def test_an_image_for_two_devices_and_frameworks_is_asked_once_with_a_gpu(tmp_path: Path) -> None:
    a_framework(tmp_path, "jax", cpu="own:1")
    a_framework(tmp_path, "onnxruntime", cpu="own:1", gpu="own:1")
    (allowed,) = allowed_images(tmp_path, has_gpu=True)
    assert allowed == AllowedImage("own:1", ("jax", "onnxruntime"), ("gpu", "cpu"))


def test_an_image_that_starts_with_no_gpu_is_asked_without(tmp_path: Path) -> None:
    says = said(link_fingerprint(), "onnxruntime")
    no_driver = 'could not select device driver "" with capabilities: [[gpu]]'
    fake = an_engine(tmp_path, fails=no_driver, starts_on_cpu=True, says=says)
    answer = answered(fake, AllowedImage(IMAGE, ("jax", "onnxruntime"), ("gpu", "cpu")))
    assert (answer.facts.reason, answer.may_change) == ("", True)
    assert ["--gpus" in command for command in fake.commands("run")] == [True, False]


def test_an_image_that_has_none_of_its_frameworks_is_unfit(tmp_path: Path) -> None:
    fake = an_engine(tmp_path, says=said(link_fingerprint(), "openvino"))
    answer = answered(fake, AllowedImage(IMAGE, ("jax", "onnxruntime"), ("cpu",)))
    assert answer.facts.reason.startswith("is without jax and onnxruntime (it has openvino)")
    assert not answer.may_change


def test_a_container_offers_no_framework_that_needs_a_network(tmp_path: Path) -> None:
    says = said(link_fingerprint(), "onnxruntime", "remote")
    names = [own.framework for own in facts(tmp_path, {"says": says}).runtimes]
    assert names == ["onnxruntime"]


@pytest.mark.parametrize(
    ("image", "may_change"), [({"fails": NO_MODULE}, False), ({"fails": "out of memory"}, True)]
)
def test_only_an_image_that_did_not_start_may_answer_otherwise_later(
    tmp_path: Path, image: dict[str, str], may_change: bool
) -> None:
    assert answered(an_engine(tmp_path, **image)).may_change is may_change


def test_a_container_that_does_not_answer_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_ANSWER_S", 0.5)
    fake = an_engine(tmp_path, hangs=True)
    assert "no answer within 0.5 s" in answered(fake).facts.reason
    (command,) = fake.commands("run")
    assert command[command.index("--label") + 1] == "mlscope.agent=/agents/a1"
    name = command[command.index("--name") + 1]
    assert fake.commands("rm") == [["rm", "--force", name]]


def test_an_image_without_a_tag_is_the_latest(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path)
    fake.has(images={"own/ort:experiment": {"digest": "b"}, "own/ort:latest": {"digest": "a"}})
    engine = engine_of(fake)
    assert (engine.image_digest("own/ort"), engine.image_digest("own/ort:experiment")) == ("a", "b")


def test_a_program_that_can_t_be_read_is_no_script_of_podman(tmp_path: Path) -> None:
    assert not is_podman(tmp_path / "docker")
    assert is_podman(tmp_path / "podman")


def fingerprint_with(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]) -> str:
    """Return the fingerprint of messages whose schemas have one text replaced."""
    text = json.dumps(message_schemas())
    assert change[0] in text
    monkeypatch.setattr(fingerprint, "message_schemas", lambda: json.loads(text.replace(*change)))
    link_fingerprint.cache_clear()
    return link_fingerprint()


def test_the_link_s_fingerprint_depends_on_fields_and_on_no_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = link_fingerprint()
    description = next(iter(message_schemas().values()))["description"]
    try:
        assert fingerprint_with(monkeypatch, (description, "Something else.")) == own
        assert fingerprint_with(monkeypatch, ('"run": {', '"runs": {')) != own
        monkeypatch.setattr(fingerprint, "message_schemas", message_schemas)
        monkeypatch.setattr(fingerprint, "LAYOUT", "another")
        link_fingerprint.cache_clear()
        assert link_fingerprint() != own
    finally:
        link_fingerprint.cache_clear()
