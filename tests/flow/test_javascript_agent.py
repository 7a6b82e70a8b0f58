"""An agent in another language takes part by the contract alone: the example in JavaScript."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from mlscope.client.errors import EvaluationRefused
from tests.flow.clusters import REPOSITORY, Cluster, online, run
from tests.timescale.installing import install

#: It starts a cluster, as an agent that comes and goes would disturb the shared one.
pytestmark = pytest.mark.long
CLUSTER: dict[str, str] = {}
EXAMPLE = REPOSITORY / "tests" / "examples" / "javascript_agent"
MODEL: dict[str, Any] = {
    "name": "mean",
    "version": "1.0.0",
    "framework": {"name": "javascript"},
    "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 4096]}],
    "outputs": [{"type": "raw", "layer_name": "mean"}],
    "model": {"graph_path": "mean.mjs", "checksum": f"sha256:{'0' * 64}"},
}


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[Cluster]:
    """Run the example's agent in a cluster, lend the cluster, and have the agent leave."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    install(EXAMPLE)
    command = ["node", str(EXAMPLE / "agent.mjs"), cluster.nats_url, str(cluster.key("agent"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "agent javascript is announced\n"
        yield cluster
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    listed = {row["agent"]: row for row in json.loads(cluster.mlscope("agents", "-o", "json"))}
    assert listed["javascript"]["state"] == "left"


def test_its_run_is_matched_measured_and_analyzed(agent: Cluster) -> None:
    blocks = {"least": 2, "most": 2}
    status = run(agent, MODEL, scenarios=online(20), batch_sizes=[1, 4], blocks=blocks)
    assert (status.state, status.agents) == ("analyzed", ("javascript",)), status
    assert status.framework == "javascript 1.0.0"
    counts = [(own.batch_size, own.answered, own.spans, own.caveats) for own in status.runs]
    assert counts == [(1, 40, 40, ()), (4, 40, 40, ())]


def test_its_rows_are_those_of_the_contract(agent: Cluster) -> None:
    status = run(agent, MODEL, scenarios=online(3))
    rows = agent.rows(
        "SELECT query.query, spans.name, started_ns = start_ns, ended_ns - started_ns = duration_ns"
        " FROM spans JOIN query USING (run_key, query) WHERE evaluation = %s ORDER BY query.query",
        status.evaluation,
    )
    assert rows == [(query, "predict", True, True) for query in range(3)]


def test_what_it_cannot_do_is_said(agent: Cluster) -> None:
    status = run(agent, MODEL, scenarios=online(5, "poisson", rate_hz=50.0))
    assert status.state == "failed"
    assert "this agent paces the scenario online alone" in status.runs[0].cause


def test_a_device_that_it_does_not_announce_is_refused(agent: Cluster) -> None:
    refusal = pytest.raises(EvaluationRefused, match="javascript serves cpu, wanted device gpu")
    with refusal, agent.client() as client:
        client.run(MODEL, system={"device": "gpu"}, wait_s=0)
