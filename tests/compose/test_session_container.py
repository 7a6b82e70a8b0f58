"""Sessions in a framework's container, in a real engine: measured, ended and removed.

The image is built from this tree under a tag of its own. The bus of the agent is in memory.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from cli.cluster.servers.nats_server import find_program
from mlscope.testing.memory_bus import MemoryServer
from schemas.agent import AgentAnnounced, ContainerFacts
from schemas.batch import OutputsPredicted
from schemas.run import RunCompleted
from schemas.subjects import facts_of
from services.agent.host.containers.engine import LABEL, Engine
from services.agent.host.containers.keeping import Containers
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.machine.hardware import engine_architecture
from tests.compose.conftest import ROOT
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order
from tests.services.agent.test_service import Scheduler, Small, serving

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

IMAGE = "mlscope-session-test:1"
AGENT = """
import asyncio, sys
from pathlib import Path

from services.agent.host.containers.keeping import Containers
from services.agent.host.process import WorkerLimits, WorkerProcess
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from tests.compose.test_session_container import IMAGE
from tests.services.agent.builders import a_subject
from tests.services.agent.test_service import Small

async def main(folder, manifests):
    settings = Small(folder, manifests_folder=manifests, containers="docker")
    containers = Containers(settings, folder, DEFAULT_ALLOWANCES)
    await containers.refresh()
    container = containers.of_session(a_subject(container=IMAGE), ())
    limits = WorkerLimits(folder / "w", 1 << 20, 1 << 20)
    worker = await WorkerProcess.start("w", limits, {}, container)
    print(container.name, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*map(Path, sys.argv[1:])))
"""


@pytest.fixture(scope="module")
def image(engine: None) -> str:
    """Build the image of ONNX Runtime, whose base may be a stand-in, and return its id."""
    environ = {**os.environ, "NATS_SERVER": str(find_program())}
    standins = Path(__file__).parent / "standins.sh"
    subprocess.run([str(standins)], env=environ, check=True, stdout=subprocess.DEVNULL)
    build = ["docker", "build", "--quiet", "--target", "onnxruntime", "--tag", IMAGE, "."]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return Engine.named("docker").image_digest(IMAGE)


@pytest.fixture(params=["docker", "podman"])
def session_engine(
    request: pytest.FixtureRequest, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    """Return an engine that has the image; podman gets docker's, and a file of settings."""
    if request.param == "podman":
        if shutil.which("podman") is None:
            pytest.skip("no podman: apt-get install podman")
        (tmp_path / "containers.conf").write_text(podman_settings())
        monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
        archive = tmp_path / "image.tar"
        subprocess.run(["docker", "save", "--output", str(archive), IMAGE], check=True)
        subprocess.run(["podman", "load", "--quiet", "--input", str(archive)], check=True)
        archive.unlink()
        probe = ["podman", "run", "--rm", "--entrypoint", "true", IMAGE]
        started = subprocess.run(probe, capture_output=True, text=True, check=False)
        if started.returncode:
            pytest.skip(f"podman starts no container on this machine: {started.stderr.strip()}")
    return Engine.named(request.param)


def podman_settings() -> str:
    """Return what the guide says where root may raise no limit and control groups are hybrid."""
    limits = ["nofile=4096:4096", "nproc=4096:4096"]
    runtime = 'runtime = "runc"' if shutil.which("runc") else ""
    return f"[containers]\ndefault_ulimits = {limits}\n[engine]\n{runtime}\n"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return a folder with one model, one dataset, and a framework that gives the image."""
    folder = tmp_path / "manifests"
    for name in ("models/identity", "datasets/vectors"):
        for path in MANIFESTS.glob(f"{name}*"):
            copied = folder / path.relative_to(MANIFESTS)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, copied)
    (folder / "frameworks").mkdir()
    images = {engine_architecture(): {"cpu": IMAGE}}
    framework = {"kind": "framework", "name": "onnxruntime", "version": "1.0", "containers": images}
    (folder / "frameworks" / "own.yml").write_text(yaml.safe_dump(framework))
    return folder


async def offered(scheduler: Scheduler) -> ContainerFacts:
    """Return what the agent announces of the image after its first look."""
    *_, last = await scheduler.facts(AgentAnnounced, 2)
    (facts,) = last.announcement.containers
    return facts


async def answers_of(scheduler: Scheduler, session: str) -> Sequence[bytes]:
    """Return what the model answered in a session."""
    recorded = await scheduler.bus.read(facts_of(OutputsPredicted))
    facts = [each.fact for each in recorded]
    own = [fact for fact in facts if isinstance(fact, OutputsPredicted) and fact.run == session]
    return [text for fact in own for text in fact.texts]


async def test_a_session_in_a_container_answers_as_without_and_says_where(
    session_engine: Engine, image: str, manifests: Path, tmp_path: Path
) -> None:
    settings = {"manifests_folder": manifests, "containers": session_engine.name}
    async with serving(MemoryServer(), tmp_path / "data", **settings) as scheduler:
        facts = await offered(scheduler)
        assert (facts.reason, facts.digest) == ("", image)
        for name, container in (("within", IMAGE), ("without", "")):
            order = an_order(a_subject(container=container), [a_run(name)], session=name)
            await scheduler.command("start", order)
        outcomes = {own.run: own.conditions for own in await scheduler.facts(RunCompleted, 2)}
        answers = await answers_of(scheduler, "within")
        assert answers == await answers_of(scheduler, "without") != []
    assert (outcomes["within"].container, outcomes["within"].container_digest) == (IMAGE, image)
    assert outcomes["within"].container_engine.startswith(f"{session_engine.name} ")
    assert outcomes["without"].container == ""
    assert containers_of(tmp_path / "data" / "agents" / "a1", session_engine.name) == []


def containers_of(owner: Path, engine: str = "docker") -> Sequence[str]:
    """Return the names of an agent's containers that an engine has, running or not."""
    filters = ("--filter", f"label={LABEL}={owner}", "--format", "{{.Names}}")
    return Engine.named(engine).answer("ps", "--all", *filters).split()


def until(is_so: Callable[[], object], most_s: float = 120.0) -> None:
    """Wait for a state; fails where it does not come."""
    deadline = time.monotonic() + most_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)


def started(folder: Path, manifests: Path) -> tuple["subprocess.Popen[str]", str]:
    """Start an agent with a session in a container; return its process and the container's name."""
    command = [sys.executable, "-c", AGENT, str(folder), str(manifests)]
    agent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    with agent.stdout as words:
        return agent, words.readline().strip()


@pytest.mark.usefixtures("image")
def test_a_container_ends_with_an_agent_that_is_killed(manifests: Path, tmp_path: Path) -> None:
    agent, container = started(tmp_path, manifests)
    assert containers_of(tmp_path) == [container]
    agent.kill()
    agent.wait()
    until(lambda: not containers_of(tmp_path))


@pytest.mark.usefixtures("image")
def test_a_container_that_hangs_is_removed_at_the_agent_s_next_start(
    manifests: Path, tmp_path: Path
) -> None:
    agent, container = started(tmp_path, manifests)
    engine = Engine.named("docker")
    engine.answer("pause", container)
    agent.kill()
    agent.wait()
    assert containers_of(tmp_path) == [container]
    settings = Small(tmp_path, manifests_folder=manifests, containers="docker")
    Containers(settings, tmp_path, DEFAULT_ALLOWANCES).remove_leftovers(engine)
    assert containers_of(tmp_path) == []
