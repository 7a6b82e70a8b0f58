"""Files that are not what they should be: a clear error in the record, and the next run right."""

import base64
import hashlib
import io
import pickle
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.client.errors import CommandRefused
from tests.flow.clusters import SHIPPED, Cluster, assert_well, online, run, running
from tests.flow.endings import failed, refused
from tests.flow.manifests import copied, model, sha256
from tests.mlscope.assets.web_server import Site, serving

GRAPH = (SHIPPED / "models" / "identity" / "model.onnx").read_bytes()


@dataclass(frozen=True)
class World:
    """A cluster, its manifests folder, and a web server that does as it is told."""

    cluster: Cluster
    manifests: Path
    site: Site


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Lend them, all files of a kind that tests need in their places."""
    with tempfile.TemporaryDirectory(prefix="mlscope-manifests-") as folder, serving() as site:
        manifests = copied(Path(folder))
        settings = {
            "MLSCOPE_MANIFESTS": folder,
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
            "MLSCOPE_FETCH_HOSTS": "127.0.0.1",
        }
        with running(settings) as cluster:
            yield World(cluster, manifests, site)


@pytest.fixture(scope="module", autouse=True)
def _well_in_the_end(world: World) -> Iterator[None]:
    yield
    assert_well(world.cluster)


@pytest.fixture(autouse=True)
def _nothing_died(world: World) -> Iterator[None]:
    yield
    assert world.cluster.restarted() == {}


def digest(body: bytes) -> str:
    """Return a checksum as manifests write it."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def identity(name: str, **assets: str) -> dict[str, Any]:
    """Return the identity model under another name, its file elsewhere."""
    return {**model("identity"), "name": name, "model": assets}


def of_arrays(world: World, samples: Any, **options: Any) -> dict[str, Any]:
    """Return a dataset of a NumPy file below the manifests."""
    path = world.manifests / "datasets" / "given.npy"
    np.save(path, samples)
    source = {"address": "file:given.npy", "reader": "npy", "checksum": sha256(path)}
    return {"kind": "dataset", "name": "given", "source": {**source, "options": options}}


def test_a_version_no_agent_has_is_refused_agent_by_agent(world: World) -> None:
    need = {"name": "onnxruntime", "version": ">=99"}
    told = refused(world.cluster, "identity", framework=need)
    assert told.error == "unsatisfiable"
    ((agent, reason),) = [(each.agent, each.reason) for each in told.agents]
    assert (agent, ">=99" in reason) == ("first", True)


def test_a_download_that_is_another_file_is_not_used(world: World) -> None:
    url = world.site.put("/other.onnx", GRAPH + b"\0")
    wanted = identity("altered", graph_path=url, checksum=digest(GRAPH))
    cause = failed(world.cluster, model=wanted).cause
    assert digest(GRAPH).removeprefix("sha256:") in cause
    assert digest(GRAPH + b"\0").removeprefix("sha256:") in cause


def test_a_download_that_is_cut_says_where_and_goes_on_there(world: World) -> None:
    url = world.site.put("/cut.onnx", GRAPH, '"one"')
    world.site.cuts[:] = [60] + [0] * 20
    wanted = identity("cut", graph_path=url, checksum=digest(GRAPH))
    cause = failed(world.cluster, model=wanted).cause
    assert f"cut after 60 of {len(GRAPH)} bytes" in cause
    world.site.cuts.clear()
    assert run(world.cluster, wanted, scenarios=online()).state == "analyzed"
    assert world.site.asked[-1][1]["Range"] == "bytes=60-"


def test_a_file_without_checksum_is_not_fetched_unasked(world: World) -> None:
    url = "https://127.0.0.1:9/m.onnx"
    told = refused(world.cluster, identity("unsure", graph_path=url))
    assert (told.error, told.field) == ("invalid", "options.weights")
    assert url in told.refused.allowed


def zipped(**members: bytes) -> bytes:
    """Return a zip archive; `__` in a name is `../`."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "../"), content)
    return body.getvalue()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"model": GRAPH, "zeros": bytes(80 << 20)}, "200 times its own size"),
        pytest.param(
            {"model": GRAPH, "__escaped": b"x"},
            "leads outside its folder",
            marks=pytest.mark.long,
        ),
    ],
    ids=["bomb", "escape"],
)
def test_an_archive_that_does_harm_is_not_unpacked(
    world: World, members: dict[str, bytes], said: str
) -> None:
    body = zipped(**members)
    url = world.site.put("/model.zip", body)
    wanted = identity("archived", archive=url, archive_checksum=digest(body), graph_path="model")
    assert said in failed(world.cluster, model=wanted).cause
    left = [path.name for path in world.cluster.folder.rglob("*")]
    assert not {"escaped", "zeros"} & set(left)


class Harm:
    """Does something as it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return open, (str(self._path), "w")


def test_pickled_weights_are_not_run(world: World, tmp_path: Path) -> None:
    path = world.manifests / "models" / "harm.pth"
    path.write_bytes(pickle.dumps({"weight": Harm(tmp_path / "ran")}))
    assert not (tmp_path / "ran").exists()
    wanted = model("networks/espcn-x2-pytorch") | {"name": "harmful"}
    wanted["model"] = {
        "builder": "services.agent.predictors.networks.pytorch.espcn",
        "arguments": {"scale": 2},
        "weights_path": "file:harm.pth",
        "weights_checksum": sha256(path),
    }
    cause = failed(world.cluster, model=wanted).cause
    assert "cannot open harmful: harm.pth is a pickle of more than tensors" in cause
    assert not (tmp_path / "ran").exists()


def test_answers_that_are_no_numbers_fail_their_queries_alone(world: World) -> None:
    samples = np.ones((4, 4), np.float32)
    samples[2] = np.nan
    dataset = of_arrays(world, samples, allow_nan=True)
    status = run(world.cluster, dataset=dataset, scenarios=online(8))
    (one,) = status.runs
    assert (status.state, one.answered, one.failed_queries) == ("analyzed", 6, 2), status
    assert "output y: 4 NaN and 0 infinite of 4 values" in " ".join(one.caveats)
    told = world.cluster.rows(
        "SELECT query FROM query JOIN run USING (run_key) WHERE evaluation = %s"
        " AND query.error LIKE %s ORDER BY query",
        status.evaluation,
        "%NaN%",
    )
    assert told == [(2,), (6,)]


@pytest.mark.parametrize(
    ("shape", "kind", "found"),
    [
        ((3, 5), "float32", "float32[5]"),
        pytest.param((3, 4), "int64", "int64[4]", marks=pytest.mark.long),
    ],
)
def test_samples_of_another_shape_or_type_are_said(
    world: World, shape: tuple[int, ...], kind: str, found: str
) -> None:
    dataset = of_arrays(world, np.zeros(shape, kind))
    cause = failed(world.cluster, model="identity", dataset=dataset).cause
    assert f"holds {found}, the model takes float32[4]" in cause


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ({"shape": [-1, 5]}, "[-1, 5]"),
        pytest.param({"element_type": "int64"}, "int64", marks=pytest.mark.long),
    ],
)
def test_a_manifest_that_is_wrong_of_its_model_is_said(
    world: World, port: dict[str, Any], said: str
) -> None:
    wanted = model("identity") | {"name": "wrong"}
    wanted["inputs"][0] |= port
    synthetic = {"kind": "dataset", "name": "any", "synthetic": {"samples": 4}}
    cause = failed(world.cluster, model=wanted, dataset=synthetic).cause
    assert said in cause, cause
    assert "float32" in cause or "4" in cause


def assert_all_failed(world: World, said: str, **request: Any) -> None:
    """Check that no query was answered, and that the run and each query say why."""
    status = run(world.cluster, scenarios=online(), **request)
    (one,) = status.runs
    assert (one.answered, one.failed_queries) == (0, 5), status
    assert said in one.caveats[0]
    told = world.cluster.rows(
        "SELECT count(*) FROM query JOIN run USING (run_key) WHERE evaluation = %s"
        " AND position(%s in query.error) > 0",
        status.evaluation,
        said,
    )
    assert told == [(5,)]


def test_labels_that_are_not_as_many_as_classes_are_said(world: World) -> None:
    path = world.manifests / "models" / "three.txt"
    path.write_text("cat\ndog\neel\n")
    wanted = model("identity") | {"name": "named"}
    wanted["outputs"][0]["steps"] = [{"topk": None, "k": 2, "labels": "file:three.txt"}]
    wanted["model"]["assets"] = {"file:three.txt": sha256(path)}
    assert_all_failed(world, "has 3 labels, but the model's output has 4 classes", model=wanted)


@pytest.mark.long
def test_text_in_place_of_pictures_fails_each_query(world: World) -> None:
    text = base64.b64encode(b"A cat sat on the mat.").decode()
    dataset = {"kind": "dataset", "name": "prose", "samples": [{"content": text}]}
    said = "sample 0: decode: not a readable JPEG, PNG or WebP picture"
    assert_all_failed(world, said, model="efficientnet-lite0", dataset=dataset)


def test_another_text_under_a_published_number_is_refused(world: World) -> None:
    first = model("identity") | {"name": "numbered"}
    with world.cluster.client() as client:
        client.publish(first)
        with pytest.raises(CommandRefused) as told:
            client.publish(first | {"description": "changed"})
        assert (told.value.error, told.value.field) == ("conflict", "manifest.version")
        assert "publish the change under a new version" in str(told.value)
        client.publish(first | {"description": "changed", "version": "1.0.1"})
    status = run(world.cluster, "numbered:1.0.0", scenarios=online())
    assert status.subject is not None
    assert status.subject.model.description == first.get("description", "")


def test_another_text_sent_under_a_published_number_is_said_in_the_record(world: World) -> None:
    changed = model("identity") | {"description": "changed"}
    status = run(world.cluster, changed, scenarios=online())
    assert status.model.startswith("identity:1.0.0+")
    assert status.request is not None
    again = run(world.cluster, status.request.model, scenarios=online())
    assert again.model == status.model
    with world.cluster.client() as client:
        table = client.explore("history", model=status.model).table
        assert table is not None
        assert {row["model"] for row in table.records()} == {status.model}
    said = "model identity 1.0.0 came with the request and is not the published one"
    assert said in " ".join(status.runs[0].caveats)
    same = run(world.cluster, model("identity"), scenarios=online())
    assert (same.model, same.runs[0].caveats) == ("identity:1.0.0", ())
