"""One request, answered by agents of three frameworks, each in its image."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.conftest import Compose
from tests.compose.test_compose import mlscope
from tests.flow.frameworks import FRAMEWORKS, written_model

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

PROFILES = ("--profile", "openvino", "--profile", "litert")


def agents_by_framework(compose: Compose) -> dict[str, str]:
    """Return a live agent of each framework that one has."""
    agents = json.loads(mlscope(compose, "ls", "agents", "-o", "json"))
    return {
        name: own["agent"]
        for own in agents
        for name in FRAMEWORKS
        if own["state"] == "live" and f"{name}:" in own["frameworks"]
    }


@pytest.fixture
def agents(compose: Compose) -> Iterator[dict[str, str]]:
    """Lend an agent of each framework; those of profiles are removed, which `down` does not do."""
    services = ("agent-openvino", "agent-litert")
    up = ("up", "-d", "--build", "--no-recreate", "--no-deps")
    try:
        # Without their names `--build` makes the images of every profile.
        compose(*PROFILES, *up, *services, timeout_s=1200)
        deadline = time.monotonic() + 120
        while (live := agents_by_framework(compose)).keys() != set(FRAMEWORKS):
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
