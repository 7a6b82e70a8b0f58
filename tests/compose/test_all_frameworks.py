"""Agents of the profiles, each in its image: three answer one request, the others one each."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.compose.conftest import ROOT, Compose
from tests.compose.test_compose import mlscope
from tests.flow.frameworks import FRAMEWORKS, written_model

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

PROFILES = ("--profile", "openvino", "--profile", "litert")
UP = ("up", "-d", "--build", "--no-recreate", "--no-deps")
INDEX_PORT = 31_881
"""Always the same: the engine builds an image anew when an argument of its build changes."""
GPU_IMAGE = "mlscope:0.1.0-pytorch-gpu"
NO_GPU = 'could not select device driver "nvidia"'


def live_agents(compose: Compose) -> dict[str, str]:
    """Return a live agent of each framework that one has."""
    agents = json.loads(mlscope(compose, "ls", "agents", "-o", "json"))
    return {
        name: own["agent"]
        for own in agents
        for name in (*FRAMEWORKS, "jax", "tensorflow", "pytorch")
        if own["state"] == "live" and f"{name}:" in own["frameworks"]
    }


@pytest.fixture
def agents(compose: Compose) -> Iterator[dict[str, str]]:
    """Lend an agent of each framework; those of profiles are removed, which `down` does not do."""
    services = ("agent-openvino", "agent-litert")
    try:
        # Without their names `--build` makes the images of every profile.
        compose(*PROFILES, *UP, *services, timeout_s=1200)
        deadline = time.monotonic() + 120
        while (live := live_agents(compose)).keys() != set(FRAMEWORKS):
            assert time.monotonic() < deadline, live
        yield live
    finally:
        compose(*PROFILES, "rm", "--stop", "--force", *services)


def test_agents_of_three_frameworks_answer_one_request(
    compose: Compose, agents: dict[str, str], tmp_path: Path
) -> None:
    written_model(tmp_path)
    tmp_path.chmod(0o755)
    names = [argument for agent in agents.values() for argument in ("--agent", agent)]
    arguments = ("run", "/models/three.yml", "--all-agents", *names, "--wait", "60")
    mounted = ("run", "--rm", "-T", "--volume", f"{tmp_path}:/models:ro", "cli")
    printed = compose(*mounted, *arguments, "--scenario", "online:queries=5", "-o", "json")
    status = json.loads(printed)["status"]
    assert status["state"] == "analyzed"
    assert {run["framework"].split()[0]: run["agent"] for run in status["runs"]} == agents
    assert [run["state"] for run in status["runs"]] == ["recorded"] * 3
    # Blocks of five are repeated until the interval is narrow enough.
    assert all(run["answered"] >= 5 for run in status["runs"])


@contextmanager
def agent_of(compose: Compose, profile: str) -> Iterator[str]:
    """Start the agent of a profile, whose image is built first, and lend its name."""
    service = f"agent-{profile}"
    try:
        compose("--profile", profile, *UP, service, timeout_s=1200)
        deadline = time.monotonic() + 120
        while not (agent := live_agents(compose).get(profile)):
            assert time.monotonic() < deadline, "it is not announced"
        yield agent
    finally:
        compose("--profile", profile, "rm", "--stop", "--force", service)


@pytest.mark.parametrize(
    ("profile", "model"),
    [
        ("jax", ("collaborative-filter-jax",)),
        ("tensorflow", ("keras-mobilenet", "--option", "weights=random")),
    ],
)
def test_the_agent_of_a_profile_answers(
    compose: Compose, profile: str, model: tuple[str, ...]
) -> None:
    with agent_of(compose, profile) as agent:
        arguments = (*model, "--agent", agent, "--scenario", "online:queries=2", "--wait", "60")
        assert "online" in mlscope(compose, "run", *arguments)


@pytest.fixture
def with_cpu_build(compose: Compose, tmp_path: Path) -> Iterator[Compose]:
    """Serve the PyTorch of this environment to the build of its image, and return such a compose.

    The registry's own is built for CUDA, and takes 5 GB.
    """
    torch = version("torch")
    if not torch.endswith("+cpu"):
        pytest.skip(f"PyTorch {torch} is no build for CPUs, which alone is small enough")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"torch=={torch}"]
    subprocess.run([*pip, "--dest", str(tmp_path / "torch")], check=True)
    ours = tmp_path / "compose.yaml"
    # pip takes no packages over HTTP but from the machine itself.
    ours.write_text("services: {agent-pytorch: {build: {network: host}}}")
    files = ["-f", str(ROOT / "compose.yaml"), "-f", str(ours), "--project-directory", str(ROOT)]
    index = {"MLSCOPE_TORCH_INDEX": f"http://127.0.0.1:{INDEX_PORT}/"}
    serve = ["-m", "http.server", str(INDEX_PORT), "--bind", "127.0.0.1", "--directory"]
    server = subprocess.Popen(
        [sys.executable, *serve, str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield replace(
            compose, command=[*compose.command, *files], environ={**compose.environ, **index}
        )
    finally:
        server.terminate()
        server.wait()


def test_the_agent_of_pytorch_answers(with_cpu_build: Compose) -> None:
    with agent_of(with_cpu_build, "pytorch") as agent:
        asked = ("run", "collaborative-filter-pytorch", "--agent", agent, "--wait", "60")
        assert "online" in mlscope(with_cpu_build, *asked, "--scenario", "online:queries=2")


def test_a_machine_that_can_give_no_gpu_refuses_the_profile_in_the_guide_s_words(
    compose: Compose,
) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    docker = ("docker", "image")
    is_built = not subprocess.run([*docker, "inspect", GPU_IMAGE], capture_output=True).returncode
    if not is_built:  # it is never started here: any image has its name
        subprocess.run(["docker", "tag", "mlscope:0.1.0", GPU_IMAGE], check=True)
    try:
        with pytest.raises(AssertionError, match=NO_GPU):
            compose("--profile", "gpu", "up", "-d", "--no-build", "--no-deps", "agent-gpu")
    finally:
        compose("--profile", "gpu", "rm", "--stop", "--force", "agent-gpu")
        if not is_built:
            subprocess.run([*docker, "rm", GPU_IMAGE], check=True)
    assert NO_GPU in (ROOT / "docs" / "howto" / "containers.md").read_text()
