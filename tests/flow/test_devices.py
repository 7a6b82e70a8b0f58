"""A device that mlscope knows nothing of: a package brings it, and a request names it."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.flow.clusters import Cluster
from tests.flow.manifests import sha256

CLUSTER = "cluster_with_packages"


def manifest(folder: Path) -> Path:
    """Write a model for the board, and its manifest, into a folder; return the manifest."""
    weights = np.ones((4, 3), np.int8)
    bitfile = struct.pack("<4sIIf", b"FPGA", *weights.shape, 1.0) + weights.tobytes()
    graph = folder / "dense.bit"
    graph.write_bytes(bitfile)
    document: dict[str, Any] = {
        "name": "fpga-dense",
        "version": "1.0.0",
        "framework": {"name": "fpga"},
        "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 4]}],
        "outputs": [{"type": "raw", "layer_name": "scores"}],
        "model": {"graph_path": "dense.bit", "checksum": f"sha256:{sha256(graph)}"},
    }
    path = folder / "fpga-dense.yml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_board_is_announced_requested_by_its_name_and_measured(
    cluster: Cluster, tmp_path: Path
) -> None:
    asked = ("run", str(manifest(tmp_path)), "--dataset", "vectors", "--scenario", "online")
    told = json.loads(cluster.mlscope(*asked, "--device", "fpga", "-o", "json"))
    assert (told["status"]["state"], told["status"]["device"]) == ("analyzed", "fpga")
    (agent,) = json.loads(cluster.mlscope("ls", "agents", "-o", "json"))
    assert "simulated board" in json.dumps(agent)


def test_another_device_is_refused_with_those_that_there_are(
    cluster: Cluster, tmp_path: Path
) -> None:
    asked = ("run", str(manifest(tmp_path)), "--dataset", "vectors", "--device", "cuda")
    with pytest.raises(AssertionError, match="fpga serves fpga, wanted device cuda"):
        cluster.mlscope(*asked)
