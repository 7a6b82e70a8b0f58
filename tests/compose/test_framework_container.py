"""An agent in its framework's container, started by `mlscope agent --framework-manifest`."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.compose.conftest import ROOT, Compose
from tests.compose.test_compose import in_container, mlscope

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

NAME = "contained"


def announced(compose: Compose) -> dict[str, str]:
    """Return the agents and their states."""
    told = json.loads(mlscope(compose, "ls", "agents", "-o", "json"))
    return {each["agent"]: each["state"] for each in told}


def test_the_container_becomes_an_agent_of_the_cluster(compose: Compose, tmp_path: Path) -> None:
    seed = tmp_path / "agent.nk"
    seed.write_text(in_container(compose, "agent", "cat", "/run/keys/seed.nk"))
    seed.chmod(0o600)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
    images = {architecture: {"cpu": "mlscope:0.1.0"}}
    manifest = tmp_path / "framework.yml"
    manifest.write_text(json.dumps({"name": "own", "version": "1.0.0", "containers": images}))
    environ = {
        "MLSCOPE_NATS_URL": f"nats://127.0.0.1:{compose.environ['MLSCOPE_NATS_PORT']}",
        "MLSCOPE_NATS_SEED_FILE": str(seed),
        "MLSCOPE_AGENT_ID": NAME,
    }
    agent = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "agent", "--framework-manifest", str(manifest)],
        cwd=ROOT,
        env={**os.environ, **environ},
    )
    try:
        deadline = time.monotonic() + 120
        while announced(compose).get(NAME) != "live":
            assert agent.poll() is None, "the container ended"
            assert time.monotonic() < deadline, announced(compose)
        asked = ("run", "identity", "--agent", NAME, "--need", "image=mlscope:0.1.0")
        assert "online" in mlscope(compose, *asked, "--scenario", "online:queries=5")
    finally:
        agent.terminate()
        agent.wait(60)
    assert announced(compose)[NAME] == "left"
