"""A worker that takes more memory than its agent's owner allows: ended, said so, and forgotten."""

from tests.flow.clusters import REPOSITORY, Cluster, assert_well, online, run
from tests.flow.manifests import sleepy

SLEEPY = REPOSITORY / "tests" / "services" / "agent" / "sleepy"
MOST_BYTES = 800 << 20
CLUSTER = {"MLSCOPE_WORKER_MEMORY_BYTES": str(MOST_BYTES), "PYTHONPATH": str(SLEEPY)}


def test_a_model_that_takes_too_much_fails_and_the_agent_lives_on(cluster: Cluster) -> None:
    agent = cluster.pid("agent")
    greedy = sleepy(predict_ms=20, takes_bytes=MOST_BYTES)
    status = run(cluster, scenarios=online(10_000), **greedy)
    assert (status.state, status.tables) == ("failed", ()), status
    assert f"it may use {MOST_BYTES}" in status.cause
    told = "SELECT attempt, outcome, error FROM run WHERE evaluation = %s"
    assert cluster.rows(told, status.evaluation) == [(1, "failed", "memory")]
    assert_well(cluster)
    assert cluster.pid("agent") == agent


def test_the_same_model_within_the_bound_is_measured(cluster: Cluster) -> None:
    status = run(cluster, scenarios=online(), **sleepy(takes_bytes=1 << 20))
    assert (status.state, [each.answered for each in status.runs]) == ("analyzed", [5]), status
