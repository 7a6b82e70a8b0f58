"""A worker that takes more memory than its agent's owner allows: ended, said so, and forgotten."""

from tests.flow.clusters import Cluster, assert_well, online, run
from tests.flow.conftest import WORKER_BYTES
from tests.flow.manifests import sleepy

CLUSTER = "cluster_under_pressure"


def test_a_model_that_takes_too_much_fails_and_the_agent_lives_on(cluster: Cluster) -> None:
    agent = cluster.pid("agent")
    greedy = sleepy(predict_ms=20, takes_bytes=WORKER_BYTES)
    status = run(cluster, scenarios=online(10_000), **greedy)
    assert (status.state, status.tables) == ("failed", ()), status
    assert f"it may use {WORKER_BYTES}" in status.cause
    told = "SELECT attempt, outcome, error FROM run WHERE evaluation = %s"
    assert cluster.rows(told, status.evaluation) == [(1, "failed", "memory")]
    assert_well(cluster)
    assert cluster.pid("agent") == agent


def test_the_same_model_within_the_bound_is_measured(cluster: Cluster) -> None:
    status = run(cluster, scenarios=online(), **sleepy(takes_bytes=1 << 20))
    assert (status.state, [each.answered for each in status.runs]) == ("analyzed", [5]), status
