"""`docker compose up --scale agent=3`, one evaluation through it, and a service that dies."""

import json
import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.compose.conftest import Compose
from tests.compose.test_health import COMPLAINT

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

QUERIES = 1200
"""A minute of them at 20/s: a container of the command line takes seconds to start."""


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


def until_running(compose: Compose, evaluation: str) -> None:
    """Return once queries of an evaluation are being asked; fails where it has ended already."""
    deadline = time.monotonic() + 120
    state = ""
    while state != "running":
        assert time.monotonic() < deadline, state
        state = shown(compose, evaluation)["state"]
        assert state in ("requested", "postponed", "planned", "running"), state


def shown(compose: Compose, evaluation: str) -> dict[str, Any]:
    """Return what the command line says of an evaluation."""
    told: dict[str, Any] = json.loads(mlscope(compose, "show", evaluation, "-o", "json"))
    return told


def test_a_killed_collector_loses_nothing(compose: Compose) -> None:
    rate = f"fixed_rate:rate_hz=20,queries={QUERIES}"
    asked = mlscope(compose, "run", "tiny-cnn", "--scenario", rate, "--detach")
    evaluation = asked.split()[0]
    until_running(compose, evaluation)
    compose("kill", "-s", "SIGKILL", "collector")
    assert shown(compose, evaluation)["state"] == "running", "it was killed in mid-run"
    compose("up", "-d", "--no-recreate", "--scale", "agent=3")
    mlscope(compose, "watch", evaluation)
    ended = shown(compose, evaluation)
    assert ended["state"] == "analyzed"
    assert [(run["state"], run["answered"]) for run in ended["runs"]] == [("recorded", QUERIES)]
    assert stored_queries(compose, evaluation) == f"{QUERIES}|{QUERIES}"


def stored_queries(compose: Compose, evaluation: str) -> str:
    """Return rows and distinct rows of an evaluation's queries in the database."""
    counted = f"""
        SELECT count(*), count(DISTINCT (run_key, query)) FROM query
        WHERE run_key IN (SELECT run_key FROM run WHERE evaluation = '{evaluation}')
    """
    return in_container(compose, "db", "psql", "-U", "postgres", "-d", "mlscope", "-Atc", counted)


def test_the_gateway_wants_its_token(compose: Compose) -> None:
    port = os.environ.get("MLSCOPE_GATEWAY_PORT") or compose.environ["MLSCOPE_GATEWAY_PORT"]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/evaluations", timeout=5)


def in_container(compose: Compose, service: str, *command: str) -> str:
    """Run a command in a service's container and return what it prints."""
    container = compose("ps", "-q", service).split()[0]
    done = subprocess.run(
        ["docker", "exec", container, *command], text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


def test_the_services_role_owns_its_database_and_no_more(compose: Compose) -> None:
    asked = """
        SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls,
            pg_get_userbyid(datdba),
            (SELECT rolpassword IS NULL FROM pg_authid WHERE rolname = 'postgres')
        FROM pg_roles, pg_database WHERE rolname = 'mlscope' AND datname = 'mlscope'
    """
    told = in_container(compose, "db", "psql", "-U", "postgres", "-d", "mlscope", "-Atc", asked)
    assert told == "f|f|f|f|f|mlscope|t"


def test_nats_is_started_anew_when_it_complains_of_a_disk_with_room(compose: Compose) -> None:
    container = compose("ps", "-q", "nats").split()[0]

    def inspected(field: str) -> str:
        shown = ["docker", "inspect", "--format", f"{{{{{field}}}}}", container]
        return subprocess.run(shown, text=True, capture_output=True, check=True).stdout.strip()

    # The check leaves `was_full` where it has seen the disk full.
    saying = f"touch /tmp/was_full; printf %s {shlex.quote(COMPLAINT)} >> /tmp/nats.log"
    in_container(compose, "nats", "sh", "-c", saying)
    for _ in range(150):
        if inspected(".RestartCount") == "1" and inspected(".State.Health.Status") == "healthy":
            break
        time.sleep(0.2)
    assert inspected(".RestartCount") == "1"
    result = mlscope(compose, "run", "tiny-cnn", "--scenario", "online:queries=5", "--wait", "60")
    assert "online" in result


def test_no_service_runs_as_root(compose: Compose) -> None:
    for service in ("registry", "scheduler", "agent", "collector", "analyzer", "gateway"):
        assert in_container(compose, service, "id", "-u") == "10001", service
