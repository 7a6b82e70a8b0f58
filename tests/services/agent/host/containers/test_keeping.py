"""What an agent knows of its images from one look to the next; the engine is a stand-in."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from schemas.agent import Accelerator, Hardware
from services.agent.errors import ContainerRefused
from services.agent.host.containers import keeping
from services.agent.host.containers.keeping import Containers
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.machine.hardware import this_machine
from tests.services.agent.builders import a_subject
from tests.services.agent.host.containers.engines import (
    IMAGE,
    READY,
    FakeEngine,
    a_framework,
    engine_on_the_path,
)
from tests.services.agent.test_service import Small

FAILS = {**READY, "fails": "could not select device driver"}


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def now_ns(self) -> int:
        """Return the time that was set."""
        return int(self.now_s * 1e9)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """Put an engine on the PATH; its image is that of a framework, for all devices."""
    a_framework(tmp_path / "manifests", "onnxruntime", cpu=IMAGE, gpu=IMAGE)
    return engine_on_the_path(tmp_path / "engine", monkeypatch)


def containers(folder: Path, clock: Clock | None = None, **more: Any) -> Containers:
    """Return the containers of an agent whose framework has one image."""
    settings = Small(folder, manifests_folder=folder / "manifests", containers="docker", **more)
    return Containers(settings, folder, DEFAULT_ALLOWANCES, (clock or Clock()).now_ns)


def refusal(own: Containers, **subject: Any) -> str:
    """Return why a session in the image is refused."""
    with pytest.raises(ContainerRefused) as refused:
        own.of_session(a_subject(container=IMAGE, **subject), ())
    return refused.value.reason


async def test_an_image_that_did_not_start_is_asked_again_after_growing_pauses(
    tmp_path: Path, fake: FakeEngine
) -> None:
    fake.has(images={IMAGE: FAILS})
    clock = Clock()
    own = containers(tmp_path, clock)
    for clock.now_s, times in ((0, 1), (59, 1), (60, 2), (179, 2), (180, 3)):
        await own.refresh()
        assert len(fake.commands("run")) == times
    fake.has(images={IMAGE: READY})
    clock.now_s = 1000
    assert await own.refresh()
    assert own.of_session(a_subject(container=IMAGE), ()) is not None
    clock.now_s = 1e6
    assert not await own.refresh()
    assert len(fake.commands("run")) == 4


async def test_a_look_that_is_interrupted_changes_nothing_and_goes_on_later(
    tmp_path: Path, fake: FakeEngine
) -> None:
    a_framework(tmp_path / "manifests", "slow", cpu="slow:1")
    fake.has(images={IMAGE: READY, "slow:1": {**READY, "digest": "s", "hangs": True}})
    own = containers(tmp_path)
    looking = asyncio.create_task(own.refresh())
    await fake.hanging()
    async with own.undisturbed():
        await fake.nothing_hangs()
        assert not await looking
    assert "still looking" in refusal(own)
    *_, command = fake.commands("run")
    assert fake.commands("rm") == [["rm", "--force", command[command.index("--name") + 1]]]
    fake.has(images={IMAGE: READY, "slow:1": {**READY, "digest": "s"}})
    assert await own.refresh()
    assert len(fake.commands("run")) == 3


async def test_an_agent_ends_without_its_look(tmp_path: Path, fake: FakeEngine) -> None:
    fake.has(hangs=["version"])
    looking = asyncio.create_task(containers(tmp_path).refresh())
    await fake.hanging()
    looking.cancel()
    await fake.nothing_hangs()


async def test_an_engine_gone_is_why_sessions_are_refused(tmp_path: Path, fake: FakeEngine) -> None:
    own = containers(tmp_path)
    await own.refresh()
    fake.has(unreachable=True)
    assert await own.refresh()
    assert "Cannot connect to the Docker daemon" in refusal(own)


async def test_whatever_a_look_raises_is_announced(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Hardware:
        raise RuntimeError("Level Zero is broken")

    monkeypatch.setattr(keeping, "this_machine", broken)
    own = containers(tmp_path)
    assert await own.refresh()
    assert refusal(own) == "container images were not checked: Level Zero is broken"


@pytest.mark.parametrize(("vendor", "gpus"), [("amd", False), ("nvidia", True)])
async def test_images_are_asked_with_gpus_of_nvidia_alone(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, vendor: str, gpus: bool
) -> None:
    gpu = Accelerator(name="a GPU", vendor=vendor)
    machine = this_machine().model_copy(update={"accelerators": (gpu,)})
    monkeypatch.setattr(keeping, "this_machine", lambda: machine)
    await containers(tmp_path).refresh()
    (command,) = fake.commands("run")
    assert ("--gpus" in command) is gpus


@pytest.mark.parametrize(("device", "own_device"), [("cuda:0", "gpu"), ("remote", "cpu")])
async def test_only_a_session_on_a_gpu_gets_gpus(
    tmp_path: Path, fake: FakeEngine, device: str, own_device: str
) -> None:
    own = containers(tmp_path)
    await own.refresh()
    container = own.of_session(a_subject(container=IMAGE, device=device), ())
    assert container is not None
    assert container.device == own_device


async def test_leftovers_are_removed_before_a_session(tmp_path: Path, fake: FakeEngine) -> None:
    fake.has(left=["c7"])
    own = containers(tmp_path)
    await own.refresh()
    await own.refresh()
    assert fake.commands("rm") == [["rm", "--force", "c7"]]
