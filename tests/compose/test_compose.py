"""`docker compose up --scale agent=3`, one evaluation through it, and a service that dies."""

import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.compose.conftest import Compose

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]


def mlscope(compose: Compose, *arguments: str) -> str:
    """Run the command line in the cluster."""
    return compose("run", "--rm", "-T", "cli", *arguments, timeout_s=240)


def test_the_file_is_valid(compose: Compose) -> None:
    compose("config", "--quiet")


def test_three_agents_announce_themselves(compose: Compose) -> None:
    agents = json.loads(mlscope(compose, "ls", "agents", "-o", "json"))
    assert len(agents) == 3


def test_an_evaluation_goes_through(compose: Compose) -> None:
    result = mlscope(
        compose, "run", "efficientnet-lite0", "--scenario", "online:queries=5", "--wait", "60"
    )
    assert "online" in result


def test_a_killed_collector_loses_nothing(compose: Compose) -> None:
    asked = mlscope(
        compose, "run", "tiny-cnn", "--scenario", "fixed_rate:rate_hz=50,queries=200", "--detach"
    )
    evaluation = asked.split()[0]
    compose("kill", "-s", "SIGKILL", "collector")
    compose("up", "-d", "--no-recreate", "--scale", "agent=3")
    mlscope(compose, "watch", evaluation)
    shown = json.loads(mlscope(compose, "show", evaluation, "-o", "json"))
    assert shown["state"] == "analyzed"


def test_the_gateway_wants_its_token(compose: Compose) -> None:
    port = os.environ.get("MLSCOPE_GATEWAY_PORT") or compose.environ["MLSCOPE_GATEWAY_PORT"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/evaluations", timeout=5)


def test_no_service_runs_as_root(compose: Compose) -> None:
    for service in ("registry", "scheduler", "agent", "collector", "analyzer", "gateway"):
        container = compose("ps", "-q", service).split()[0]
        user = subprocess.run(
            ["docker", "exec", container, "id", "-u"], text=True, capture_output=True, check=True
        )
        assert user.stdout.strip() == "10001", service
