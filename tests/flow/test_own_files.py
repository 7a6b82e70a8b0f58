"""What a user has in files, from the command line: models elsewhere, files beside a manifest."""

import copy
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml

from cli.cluster.state import read_state
from cli.inputs.uploads import digest_of
from tests.flow.clusters import Cluster, assert_well
from tests.services.agent.predictors.doubling import doubling

CLUSTER = "cluster_with_packages"


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


RANKER = {
    "kind": "model",
    "name": "ranker",
    "version": "1.0.0",
    "framework": {"name": "onnxruntime"},
    "inputs": [{"type": "raw", "layer_name": "x", "element_type": "float32", "shape": [-1, 4]}],
    "outputs": [
        {
            "type": "classification",
            "layer_name": "y",
            "element_type": "uint8",
            "steps": [{"topk": None, "k": 1, "labels": "names.txt"}],
        }
    ],
}


def quantized_in(folder: Path) -> dict[str, Any]:
    """Write a model whose scores are whole numbers beside its names, and its manifest's rest."""
    written_graph(folder / "nets" / "ranker.onnx")
    (folder / "nets" / "names.txt").write_text("ant\nbee\ncat\ndog\n")
    own = {"base_url": "nets", "graph_path": "ranker.onnx"}
    return {**copy.deepcopy(RANKER), "model": own}


def written_graph(path: Path) -> None:
    """Write an ONNX graph that makes uint8 of four numbers, message by message."""
    cast = [(1, b"x"), (2, b"y"), (4, b"Cast"), (5, [(1, b"to"), (3, 2), (20, 2)])]
    graph = [(1, cast), (2, b"ranker"), (11, place("x", 1)), (12, place("y", 2))]
    path.parent.mkdir()
    path.write_bytes(message([(1, 8), (7, graph), (8, [(2, 17)])]))


def place(name: str, element_type: int) -> list[Any]:
    """Return an input or output of any batch and four numbers."""
    sizes = [(1, [(2, b"batch")]), (1, [(1, 4)])]
    return [(1, name.encode()), (2, [(1, [(1, element_type), (2, sizes)])])]


def message(fields: list[Any]) -> bytes:
    """Return a protobuf message of fields, all of them shorter than 128 bytes."""
    out = b""
    for number, value in fields:
        key, more = (number << 3, []) if isinstance(value, int) else (number << 3 | 2, value)
        body = message(more) if isinstance(more, list) else more
        key_bytes = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
        out += key_bytes + (bytes([value]) if isinstance(value, int) else bytes([len(body)]) + body)
    return out


def test_a_quantized_model_beside_its_manifest_is_right(cluster: Cluster, tmp_path: Path) -> None:
    model = quantized_in(tmp_path)
    model["model"]["assets"] = {"names.txt": ""}
    scores = np.array([[0, 5, 200, 100], [9, 0, 3, 250], [255, 1, 2, 254]], np.float32)
    np.savez(tmp_path / "six.npz", samples=np.tile(scores, (2, 1)), labels=[2, 3, 0] * 2)
    path = written(tmp_path / "ranker.yml", model)
    told = ran(cluster, path, "--dataset", str(tmp_path / "six.npz"))
    (row,) = told["tables"]["accuracy"]
    assert (row["metric"], row["value"]) == ("top-1", 1.0), row


def test_files_here_and_elsewhere_go_together(cluster: Cluster, tmp_path: Path) -> None:
    model = quantized_in(tmp_path)
    names = tmp_path / "nets" / "names.txt"
    held = cluster.mlscope("artifacts", "put", str(names)).split()[0]
    (tmp_path / "here.txt").write_text(names.read_text())
    model["model"] = {
        "graph_path": f"file://{tmp_path}/nets/ranker.onnx",
        "assets": {"here.txt": "", held: f"sha256:{digest_of(names)}"},
    }
    model["outputs"][0]["steps"][0]["labels"] = "here.txt"
    told = ran(cluster, written(tmp_path / "ranker.yml", model), "--outputs", "3")
    assert {row["label"] for row in told["tables"]["outputs"]} <= {"ant", "bee", "cat", "dog"}


def test_arrays_are_asked_about(cluster: Cluster, tmp_path: Path) -> None:
    model = quantized_in(tmp_path)
    model["model"]["assets"] = {"names.txt": ""}
    path = written(tmp_path / "ranker.yml", model)
    np.save(tmp_path / "a.npy", np.array([0, 5, 200, 100], np.float32))
    np.savez(tmp_path / "b.npz", x=np.array([9, 0, 3, 250], np.float32))
    files = [str(tmp_path / name) for name in ("a.npy", "b.npz")]
    told = json.loads(cluster.mlscope("predict", path, *files, "-o", "json", timeout=100))
    assert [each["features"][0]["label"] for each in told] == ["cat", "dog"]


def test_files_are_sent_over_http_too(cluster: Cluster, tmp_path: Path) -> None:
    model = quantized_in(tmp_path)
    model["model"]["assets"] = {"names.txt": ""}
    url, bearer = read_state(cluster.folder).gateway_url, f"Bearer {cluster.token()}"
    with httpx.Client(base_url=url, headers={"authorization": bearer}, timeout=100) as web:
        sent = {
            name: web.post(
                "/api/files",
                params={"name": name},
                content=(tmp_path / "nets" / name).read_bytes(),
                headers={"content-type": "application/octet-stream"},
            ).json()
            for name in ("ranker.onnx", "names.txt")
        }
        asked = {"text": yaml.safe_dump(model, sort_keys=False), "files": sent}
        checked = web.post("/api/manifests/check", json=asked).json()
        assert (checked["faults"], checked["unused"], checked["lacking"]) == ([], [], [])
    path = written(tmp_path / "ranker.yml", checked["manifest"])
    (tmp_path / "nets" / "ranker.onnx").unlink()
    told = ran(cluster, path, "--outputs", "3")
    assert {row["label"] for row in told["tables"]["outputs"]} <= {"ant", "bee", "cat", "dog"}


def test_a_dataset_is_sent_over_http_too(cluster: Cluster, tmp_path: Path) -> None:
    model = quantized_in(tmp_path)
    model["model"]["assets"] = {"names.txt": ""}
    scores = np.array([[0, 5, 200, 100], [9, 0, 3, 250], [255, 1, 2, 254]], np.float32)
    np.savez(tmp_path / "six.npz", samples=np.tile(scores, (2, 1)), labels=[2, 3, 0] * 2)
    sent = httpx.post(
        f"{read_state(cluster.folder).gateway_url}/api/datasets?name=six.npz",
        content=(tmp_path / "six.npz").read_bytes(),
        headers={
            "authorization": f"Bearer {cluster.token()}",
            "content-type": "application/octet-stream",
        },
        timeout=100,
    ).json()
    data = tmp_path / "data.yml"
    data.write_text(sent["text"])
    (tmp_path / "six.npz").unlink()
    told = ran(cluster, written(tmp_path / "ranker.yml", model), "--dataset", str(data))
    (row,) = told["tables"]["accuracy"]
    assert (row["value"], row["dataset"]) == (1.0, f"{sent['name']}:1.0.0"), row
