"""`docker compose -f compose.yaml -f compose.brokers.yaml up`: one broker of three dies."""

import json
from collections.abc import Iterator

import pytest

from tests.compose.conftest import Compose, brought_up
from tests.compose.test_compose import (
    QUERIES,
    in_container,
    mlscope,
    shown,
    stored_queries,
    until_running,
)

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

MONITOR = "http://127.0.0.1:8222/$(cat /etc/nats-keys/monitor.path)"
STREAMS = f'wget -qO- "{MONITOR}/jsz?accounts=1&streams=1&config=1"'


@pytest.fixture(scope="module")
def brokers(engine: None) -> Iterator[Compose]:
    with brought_up(files=("compose.yaml", "compose.brokers.yaml")) as compose:
        yield compose


def test_everything_is_kept_three_times(brokers: Compose) -> None:
    answer = json.loads(in_container(brokers, "nats", "sh", "-c", STREAMS))
    streams = [
        stream["config"]
        for account in answer["account_details"]
        for stream in account.get("stream_detail", ())
    ]
    assert {"EVALUATIONS", "TRACES", "KV_leases"} <= {config["name"] for config in streams}
    assert {config["num_replicas"] for config in streams} == {3}


def test_a_broker_that_dies_in_mid_run_loses_no_record(brokers: Compose) -> None:
    """Queries of a remote load that were on their way through it are lost: a caveat says so."""
    rate = f"fixed_rate:rate_hz=20,queries={QUERIES}"
    evaluation = mlscope(brokers, "run", "tiny-cnn", "--scenario", rate, "--detach").split()[0]
    until_running(brokers, evaluation)
    brokers("kill", "-s", "SIGKILL", "nats-1")
    assert shown(brokers, evaluation)["state"] == "running", "it died in mid-run"
    mlscope(brokers, "watch", evaluation)
    ended = shown(brokers, evaluation)
    assert ended["state"] == "analyzed"
    (run,) = ended["runs"]
    lost = QUERIES - run["answered"]
    assert run["state"] == "recorded"
    assert (f"{lost} of {QUERIES} queries got no answer" in run["caveats"]) == (lost > 0)
    assert lost < QUERIES / 10
    assert stored_queries(brokers, evaluation) == f"{QUERIES}|{QUERIES}"
