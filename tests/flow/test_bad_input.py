"""Bad input: each a clear error to the asker and in the record; every service lives on."""

import base64
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from mlscope.client.errors import CommandRefused
from schemas.level import Level
from schemas.manifest import DatasetManifest
from schemas.values.identity import keyed_evaluation_id
from tests.flow.asking import stranger
from tests.flow.clusters import REPOSITORY, Cluster, assert_well, online, run, running
from tests.flow.conftest import SLEEPY
from tests.flow.endings import failed, refused
from tests.flow.manifests import copied, dataset, model, sha256, sleepy

SILENCE_S = 3.0


@pytest.fixture(scope="module")
def manifests() -> Iterator[Path]:
    """Lend a manifests folder that has wrong files in it, too."""
    with tempfile.TemporaryDirectory(prefix="mlscope-manifests-") as folder:
        yield copied(Path(folder))


@pytest.fixture(scope="module")
def cluster(manifests: Path) -> Iterator[Cluster]:
    """Lend a cluster with that folder and a predictor that does as it is told."""
    settings = {
        "MLSCOPE_MANIFESTS": str(manifests),
        "MLSCOPE_RUN_SILENCE_S": str(SILENCE_S),
        "PYTHONPATH": str(SLEEPY),
    }
    with running(settings) as lent:
        yield lent


@pytest.fixture(scope="module", autouse=True)
def waiting(cluster: Cluster) -> str:
    """Return an evaluation that waits for an agent who never comes; the others go on meanwhile."""
    with cluster.client() as client:
        return client.run("identity", agents=["ghost"], wait_s=1.0).id


@pytest.fixture(scope="module", autouse=True)
def _well_in_the_end(cluster: Cluster) -> Iterator[None]:
    yield
    assert_well(cluster)


@pytest.fixture(autouse=True)
def _nothing_died(cluster: Cluster) -> Iterator[None]:
    yield
    assert cluster.restarted() == {}


def test_an_unknown_model_is_refused_with_names_near_it(cluster: Cluster) -> None:
    told = refused(cluster, "efficientnet-light0")
    assert (told.error, told.field) == ("unknown", "model")
    assert "efficientnet-lite0" in told.refused.allowed


def test_the_command_line_says_the_same(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="similar: tiny-cnn"):
        cluster.mlscope("run", "tiny-cn")


def test_constraints_nobody_meets_are_refused_agent_by_agent(cluster: Cluster) -> None:
    told = refused(cluster, "identity", system={"device": "gpu"})
    assert told.error == "unsatisfiable"
    assert [(each.agent, "gpu" in each.reason) for each in told.agents] == [("first", True)]


def test_an_inline_manifest_with_an_unknown_step_is_refused(cluster: Cluster) -> None:
    wanted = model("identity")
    wanted["inputs"][0]["steps"] = ["decode", {"levitate": None, "height": 3}]
    told = refused(cluster, wanted)
    assert (told.error, told.field) == ("invalid", "model.inputs.0.steps.1.operator")
    assert told.refused.found == "levitate"
    assert "decode" in told.refused.allowed


def test_a_published_manifest_with_an_unknown_step_is_refused(cluster: Cluster) -> None:
    wanted = {**model("identity"), "name": "levitating"}
    wanted["outputs"][0]["steps"] = ["levitate"]
    with cluster.client() as client, pytest.raises(CommandRefused) as told:
        client.publish(wanted)
    assert (told.value.error, told.value.field) == (
        "invalid",
        "manifest.outputs.0.steps.0.operator",
    )
    assert refused(cluster, "levitating").error == "unknown"


async def test_shipped_manifests_that_are_wrong_are_dead_letters(cluster: Cluster) -> None:
    async with stranger(cluster.nats_url, cluster.key("provisioner"), "provisioner") as reader:
        reasons = [
            letter["reason"]
            for sequence in (1, 2)
            if (letter := await letter_at(reader, sequence))["service"] == "registry"
        ]
    assert len(reasons) == 2, reasons
    assert any("levitate" in reason for reason in reasons)


async def letter_at(reader: Any, sequence: int) -> dict[str, Any]:
    """Return the dead letter at a place of its stream."""
    answer = await reader.json("$JS.API.STREAM.MSG.GET.DEAD", {"seq": sequence})
    body: dict[str, Any] = msgpack.unpackb(base64.b64decode(answer["message"]["data"]))["data"]
    return body


@pytest.mark.long
def test_a_missing_label_file_fails_the_run_by_name(cluster: Cluster) -> None:
    wanted = model("identity")
    wanted["outputs"][0]["steps"] = [{"topk": None, "k": 2, "labels": "labels.txt"}]
    wanted["model"]["assets"] = {"labels.txt": "0" * 64}
    assert "asset identity/labels.txt: no such file" in failed(cluster, model=wanted).cause


@pytest.mark.long
def test_a_label_file_without_checksum_is_not_used(cluster: Cluster) -> None:
    wanted = model("efficientnet_lite0")
    wanted["model"]["assets"] = {}
    assert "labels.txt: its manifest has no checksum" in failed(cluster, model=wanted).cause


def test_a_missing_model_file_fails_the_run_by_name(cluster: Cluster) -> None:
    wanted = model("identity")
    wanted["model"]["graph_path"] = "gone.onnx"
    assert "asset identity/gone.onnx: no such file" in failed(cluster, model=wanted).cause


def test_a_wrong_checksum_fails_the_run_with_both(cluster: Cluster) -> None:
    wanted = model("identity")
    true = wanted["model"]["checksum"].removeprefix("sha256:")
    wanted["model"]["checksum"] = "sha256:" + "1" * 64
    cause = failed(cluster, model=wanted).cause
    assert true in cause
    assert "expected " + "1" * 64 in cause


@pytest.mark.parametrize(
    "path", ["../../../../etc/passwd", pytest.param("/etc/passwd", marks=pytest.mark.long)]
)
def test_a_path_out_of_the_manifests_folder_is_not_followed(cluster: Cluster, path: str) -> None:
    wanted = model("identity")
    wanted["model"] |= {"base_url": "", "graph_path": path}
    assert "leads outside the manifests folder" in failed(cluster, model=wanted).cause


def test_a_file_that_is_no_model_fails_in_the_framework_s_words(
    cluster: Cluster, manifests: Path
) -> None:
    wanted = model("identity")
    wanted["model"] |= {
        "graph_path": "make.py",
        "checksum": sha256(manifests / "models" / "identity" / "make.py"),
    }
    assert "cannot open identity:" in failed(cluster, model=wanted).cause


def test_a_corrupt_photo_fails_its_queries_and_no_other(cluster: Cluster, manifests: Path) -> None:
    photos = dataset(manifests, "chelsea.jpg", "cut.jpg", "coffee.jpg", "no.jpg")
    status = run(
        cluster, "efficientnet-lite0", dataset=photos, scenarios=online(8), trace_level="model"
    )
    (one,) = status.runs
    assert (status.state, one.failed_queries) == ("analyzed", 4), status
    assert one.caveats[0].startswith("4 of 8 queries failed, first: sample 1: decode: ")
    errors = cluster.rows(
        "SELECT query, query.error FROM query JOIN run USING (run_key) "
        "WHERE evaluation = %s AND query.error IS NOT NULL ORDER BY query",
        status.evaluation,
    )
    assert [query for query, _ in errors] == [1, 3, 5, 7]
    assert all(text.startswith("sample") and "decode" in text for _, text in errors), errors
    told = cluster.rows(
        "SELECT sample, path, queries, first_queries FROM analysis_failures"
        " WHERE evaluation = %s ORDER BY sample",
        status.evaluation,
    )
    assert told == [(1, "photos/cut.jpg", 2, "1, 5"), (3, "photos/no.jpg", 2, "3, 7")]


def test_a_corrupt_photo_of_a_batch_fails_alone(cluster: Cluster, manifests: Path) -> None:
    photos = dataset(manifests, "chelsea.jpg", "cut.jpg", "coffee.jpg", "no.jpg")
    for sample, label in ((0, "tabby"), (1, "espresso"), (2, "espresso"), (3, "tabby")):
        photos["samples"][sample]["labels"] = [label]
    loads = [*online(3), {"name": "fixed_rate", "parameters": {"queries": 3, "rate_hz": 20}}]
    status = run(cluster, "efficientnet-lite0", dataset=photos, scenarios=loads, batch_sizes=[4])
    assert (status.state, [each.failed_queries for each in status.runs]) == ("analyzed", [0, 0])
    said = "6 samples failed in queries that were answered in part"
    assert all(any(said in note for note in each.caveats) for each in status.runs), status
    assert cluster.rows(
        "SELECT pacing, status, failed,"
        " query.error LIKE 'sample 1: decode: %%; sample 3: decode: %%', failed_samples,"
        " count(*) FROM query JOIN run USING (run_key) WHERE evaluation = %s"
        " GROUP BY 1, 2, 3, 4, 5 ORDER BY 1",
        status.evaluation,
    ) == [("local", 0, 2, True, 6, 3), ("remote", 0, 2, True, 6, 3)]
    assert cluster.rows(
        "SELECT DISTINCT samples, queries FROM analysis_throughput WHERE evaluation = %s",
        status.evaluation,
    ) == [(6, 3)]
    assert cluster.rows(
        "SELECT DISTINCT metric, n, excluded FROM analysis_accuracy"
        " WHERE evaluation = %s AND metric = 'top-1'",
        status.evaluation,
    ) == [("top-1", 2, 2)]
    assert cluster.rows(
        "SELECT DISTINCT sample, path, status FROM analysis_failures WHERE evaluation = %s"
        " ORDER BY sample",
        status.evaluation,
    ) == [(1, "photos/cut.jpg", "in part"), (3, "photos/no.jpg", "in part")]


def test_a_batch_size_the_model_can_t_take_fails_and_the_others_stay(
    cluster: Cluster, manifests: Path
) -> None:
    wanted = model("identity")
    one = manifests / "models" / "identity" / "one.onnx"
    wanted["model"] |= {"graph_path": "one.onnx", "checksum": sha256(one)}
    status = run(cluster, wanted, batch_sizes=[1, 4], scenarios=online())
    ends = {each.batch_size: (each.state, each.cause) for each in status.runs}
    assert (status.state, ends[1]) == ("analyzed", ("recorded", ""))
    assert ends[4][0] == "failed"
    assert "batch size 4 does not fit input x of shape [1, 4]" in ends[4][1]


@pytest.mark.long
def test_only_a_batch_size_the_model_can_t_take_fails(cluster: Cluster, manifests: Path) -> None:
    wanted = model("identity")
    one = manifests / "models" / "identity" / "one.onnx"
    wanted["model"] |= {"graph_path": "one.onnx", "checksum": sha256(one)}
    assert "batch size 3 does not fit" in failed(cluster, model=wanted, batch_sizes=[3]).cause


def test_a_level_the_agent_can_t_trace_runs_as_deep_as_it_can(cluster: Cluster) -> None:
    scenarios = online(samples="streamed")
    status = run(cluster, "tiny-cnn", trace_level="library", scenarios=scenarios)
    assert status.state == "analyzed"
    levels = cluster.rows(
        "SELECT level, level_asked, spans, level_note <> '' FROM run WHERE evaluation = %s"
        " ORDER BY level",
        status.evaluation,
    )
    model_level, framework, library = Level.MODEL, Level.FRAMEWORK, Level.LIBRARY
    assert levels == [(model_level, model_level, 10, False), (framework, library, 50, True)]
    notes = " ".join(each.level_note for each in status.runs)
    assert "can only be traced down to level framework" in notes


def test_an_option_that_is_wrong_is_refused_or_fails_the_run_by_name(cluster: Cluster) -> None:
    told = refused(cluster, "identity", options={"thread": 1})
    assert (told.field, told.refused.allowed.split(", ")[0]) == ("options.thread", "threads")
    assert "option threads" in failed(cluster, model="identity", options={"threads": "all"}).cause


@pytest.mark.parametrize(
    ("option", "cause"),
    [
        pytest.param("exits_at", "worker exited with 3", marks=pytest.mark.long),
        ("dies_at", "worker was killed by SIGKILL"),
    ],
)
def test_a_worker_that_dies_every_time_fails_after_three_attempts(
    cluster: Cluster, option: str, cause: str
) -> None:
    status = failed(cluster, **sleepy(**{option: 2}))
    assert cause in status.cause
    assert [each.attempt for each in status.runs] == [3]
    attempts = cluster.rows(
        "SELECT attempt FROM run WHERE evaluation = %s ORDER BY attempt", status.evaluation
    )
    assert attempts == [(1,), (2,), (3,)]


def test_a_worker_that_hangs_is_ended_and_said_so(cluster: Cluster) -> None:
    status = failed(cluster, **sleepy(hangs_at=2))
    assert f"took longer than {SILENCE_S:g} s" in status.cause


def test_a_predictor_that_never_opens_is_ended(cluster: Cluster) -> None:
    status = failed(cluster, **sleepy(open_hangs=True), run_timeout_s=2.0)
    assert "opening and running took longer than 2 s" in status.cause


def test_a_run_that_takes_too_long_is_ended(cluster: Cluster) -> None:
    request = sleepy(predict_ms=50) | {"run_timeout_s": 1.0, "scenarios": online(1000)}
    assert "took longer than 1 s" in failed(cluster, **request).cause


def test_one_failed_prediction_is_one_failed_query(cluster: Cluster) -> None:
    status = run(cluster, scenarios=online(samples="streamed"), **sleepy(fails_at=2))
    assert (status.state, status.runs[0].failed_queries) == ("analyzed", 1)


def test_a_bug_in_a_predictor_is_its_run_s_cause(cluster: Cluster) -> None:
    assert "a bug" in failed(cluster, **sleepy(raises_at=2)).cause


def test_a_dataset_that_does_not_fit_is_refused_or_fails(cluster: Cluster) -> None:
    told = refused(cluster, "identity", dataset="noise32")
    assert (told.error, told.field) == ("invalid", "dataset")
    assert "dataset photos" in failed(cluster, model="identity", dataset="photos").cause


@pytest.mark.parametrize(
    "wrong",
    [
        {"element_type": "wat"},
        *(
            pytest.param(wrong, marks=pytest.mark.long)
            for wrong in ({"seed": -1}, {"shape": [1 << 20]}, {"shape": [-4]})
        ),
    ],
)
def test_synthetic_samples_nobody_can_make_are_said_so(
    cluster: Cluster, wrong: dict[str, Any]
) -> None:
    wanted = model("identity")
    wanted["inputs"][0]["shape"] = [-1, -1]
    samples = {"shape": [4], "samples": 1 << 19, **wrong}
    synthetic = {"kind": "dataset", "name": "odd", "synthetic": samples}
    assert "dataset odd" in failed(cluster, model=wanted, dataset=synthetic).cause


def test_who_waits_in_vain_is_told_why(cluster: Cluster, waiting: str) -> None:
    with cluster.client() as client:
        status = client.evaluation(waiting).wait(60)
    assert (status.state, status.cause) == ("failed", "no agent fits")
    assert {each.agent for each in status.refusals} == {"ghost", "first"}


def test_a_folder_of_ones_own_with_a_corrupt_photo_in_it(cluster: Cluster, tmp_path: Path) -> None:
    """Too large for a request, so it goes through the artifact repository."""
    good = (REPOSITORY / "manifests" / "datasets" / "photos" / "panda.jpg").read_bytes()
    for name, body in (("a", good), ("cut", good[:3000]), ("noise", bytes(2 << 20))):
        path = tmp_path / "pets" / "panda" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    words = ("--dataset", "./pets", "--scenario", "online:queries=3", "--output", "json")
    cluster.mlscope("run", "efficientnet-lite0", *words, "--key", "pets", code=0, cwd=tmp_path)
    assert "datasets/" in cluster.mlscope("artifacts", "ls")
    with cluster.client() as client:
        status = client.evaluation(keyed_evaluation_id("pets")).wait(60)
    (sent,) = status.runs
    assert (sent.queries, sent.failed_queries) == (3, 2)


def test_a_requester_s_key_alone_is_enough_for_large_files(
    cluster: Cluster, tmp_path: Path
) -> None:
    good = (REPOSITORY / "manifests" / "datasets" / "photos" / "panda.jpg").read_bytes()
    for name in ("a", "b"):
        path = tmp_path / "pets" / "panda" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(good + bytes(2 << 20))
    (tmp_path / "large.jpg").write_bytes(good + bytes(4 << 20))
    elsewhere = replace(
        cluster,
        environ={
            **cluster.environ,
            "MLSCOPE_NATS_URL": cluster.nats_url,
            "MLSCOPE_NATS_SEED_FILE": str(cluster.key("requester")),
        },
        folder=tmp_path / "nothing",
    )
    words = ("--dataset", "./pets", "--scenario", "online:queries=2", "--output", "json")
    told = json.loads(elsewhere.mlscope("run", "efficientnet-lite0", *words, cwd=tmp_path))
    (sent,) = told["status"]["runs"]
    assert (sent["answered"], sent["failed_queries"]) == (2, 0)
    with cluster.client() as client:
        request = client.evaluation(told["evaluation"]).status().request
    assert request is not None
    assert isinstance(request.dataset, DatasetManifest)
    assert request.dataset.source is not None
    assert request.dataset.source.address.startswith("artifact://uploads/requester/")
    assert "panda" in elsewhere.mlscope("predict", "efficientnet-lite0", "large.jpg", cwd=tmp_path)
    assert "uploads/" not in cluster.mlscope("artifacts", "ls")


def test_a_dataset_of_this_host_is_read_only_where_its_owner_allows_it(cluster: Cluster) -> None:
    source = {"address": "file:/etc", "reader": "files"}
    dataset = {"kind": "dataset", "name": "secrets", "source": source}
    told = failed(cluster, model="efficientnet-lite0", dataset=dataset).cause
    assert "MLSCOPE_DATASET_FOLDERS" in told
