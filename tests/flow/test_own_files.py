"""What a user has in files, from the command line: models elsewhere, files beside a manifest."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flow.clusters import Cluster, assert_well
from tests.services.agent.predictors.doubling import doubling

pytestmark = pytest.mark.xdist_group("flow")

CLUSTER = {"MLSCOPE_AGENT_PREDICTORS": "onnxruntime,remote"}


@pytest.fixture(scope="module", autouse=True)
def _well_afterwards(cluster: Cluster) -> Any:
    yield
    assert_well(cluster)


def written(path: Path, content: dict[str, Any]) -> str:
    """Write a manifest and return its path."""
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(path)


def ran(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """Return what a run of six queries prints, once it is known to have answered them."""
    asked = ("run", *arguments, "--scenario", "online:queries=6", "-o", "json")
    told: dict[str, Any] = json.loads(cluster.mlscope(*asked, timeout=100))
    (ended,) = told["status"]["runs"]
    assert (ended["answered"], ended["failed_queries"]) == (6, 0), ended
    return told


def test_a_model_on_a_server_needs_no_file(cluster: Cluster, tmp_path: Path) -> None:
    model = {
        "kind": "model",
        "name": "double",
        "version": "1.0.0",
        "framework": {"name": "remote"},
        "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 3]}],
        "outputs": [{"type": "raw", "layer_name": "y"}],
    }
    path = written(tmp_path / "double.yml", model)
    with doubling() as url:
        told = ran(cluster, path, "--option", f"url={url}")
    assert "doubler 2.1" in json.dumps(told["tables"])
