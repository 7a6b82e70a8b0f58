"""A user's own model with inline Python, from a file and in a request; exported, run again."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlscope.client.errors import EvaluationRefused
from tests.flow.clusters import Cluster, assert_well, online, run, running, until
from tests.flow.manifests import model
from tests.seccomp import needs_filter

ALLOWED = {
    "MLSCOPE_ALLOW_INLINE_PYTHON": "true",
    "MLSCOPE_INLINE_TIMEOUT_S": "8",
    "MLSCOPE_INLINE_MEMORY_BYTES": "128MiB",
}
PREPROCESS = """\
import io
import numpy as np
from PIL import Image

def fun(env, data):
    height, width = env["inputs"][0]["shape"][2:]
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    square = picture.crop((left, top, left + side, top + side)).resize((width, height))
    pixels = np.asarray(square, np.float32)
    return (pixels.transpose(2, 0, 1) - 127.0) / 128.0
"""
POSTPROCESS = """\
import numpy as np

def fun(env, data):
    powers = np.exp(data - data.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    best = shares.argmax(axis=1)
    return [
        {"type": "classification", "index": int(n), "label": str(n), "probability": float(row[n])}
        for n, row in zip(best, shares)
    ]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Lend a cluster whose first agent allows inline Python, and a second one that does not."""
    with running(ALLOWED) as lent:
        other = {"MLSCOPE_AGENT_ID": "strict", "MLSCOPE_ALLOW_INLINE_PYTHON": "no"}
        strict = lent.service("agent", **other)
        try:
            with lent.client() as client:
                until(lambda: len(client.catalog("agent").agents) == 2, 60.0)
            yield lent
        finally:
            strict.send_signal(signal.SIGTERM)
            strict.wait(60)


def own(**codes: str) -> dict[str, Any]:
    """Return the shipped classifier of pictures with code instead of steps."""
    found = model("efficientnet_lite0")
    found |= {"name": "mine", "preprocess": PREPROCESS, "postprocess": POSTPROCESS, **codes}
    for port in (*found["inputs"], *found["outputs"]):
        port.pop("steps", None)
    return found


@needs_filter
def test_a_manifest_with_code_runs_from_a_file(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "my.yml"
    path.write_text(yaml.safe_dump(own(), sort_keys=False))
    assert "mine:1.0.0" in cluster.mlscope("manifest", "check", str(path))
    asked = ("run", str(path), "--scenario", "online:queries=9", "-o", "json")
    told = json.loads(cluster.mlscope(*asked, timeout=100))
    (ended,) = told["status"]["runs"]
    assert (ended["agent"], ended["answered"], ended["failed_queries"]) == ("first", 9, 0)
    labels = {row["label"] for row in told["tables"]["outputs"]}
    assert len(labels) >= 5
    assert {row["operator"] for row in told["tables"]["operators"]} == {"predict"}
    steps = {(row["part"], row["step"]) for row in told["tables"]["preparation"]}
    assert {("before", "preprocess"), ("after", "postprocess")} <= steps


def test_code_is_refused_by_an_agent_that_does_not_allow_it(cluster: Cluster) -> None:
    with cluster.client() as client, pytest.raises(EvaluationRefused) as told:
        client.run(own(), agents=["strict"])
    assert told.value.error == "unsatisfiable"
    reasons = {each.agent: each.reason for each in told.value.refused.agents}
    assert "MLSCOPE_ALLOW_INLINE_PYTHON is off" in reasons["strict"]


def test_code_beside_steps_and_placeholders_are_refused(cluster: Cluster) -> None:
    both = own() | {"inputs": model("efficientnet_lite0")["inputs"]}
    for wanted, said in (
        (both, "either steps or inline code"),
        (own(preprocess="[[code]]"), "[[code]]"),
    ):
        with (
            cluster.client() as client,
            pytest.raises(EvaluationRefused, match="preprocess") as told,
        ):
            client.run(wanted)
        assert said in str(told.value)


@needs_filter
@pytest.mark.parametrize(
    ("body", "said"),
    [
        # What else code may not do is said alike; tests of inline code try each of it.
        pytest.param(
            "while True: pass",
            "preprocess: line 3: took longer than 8 s",
            marks=pytest.mark.long,
        ),
        pytest.param("os.fork()", "preprocess: line 3: BlockingIOError", marks=pytest.mark.long),
        pytest.param(
            "return bytes(1 << 30)", "preprocess: line 3: MemoryError", marks=pytest.mark.long
        ),
        ("raise KeyError('colour')", "preprocess: line 3: KeyError: 'colour'"),
        pytest.param(
            "return [1, 2, 3]",
            "a sample has shape (3,), the model takes (3, 224, 224)",
            marks=pytest.mark.long,
        ),
    ],
)
def test_bad_code_fails_its_run_with_its_line_and_the_next_is_right(
    cluster: Cluster, body: str, said: str
) -> None:
    code = f"import os\ndef fun(env, data):\n  {body}\n"
    status = run(cluster, own(preprocess=code), scenarios=online(2), warmup=1)
    (ended,) = status.runs
    told = " ".join((status.cause, ended.cause, *ended.caveats))
    assert said in told, status
    assert ended.answered == 0
    assert_well(cluster)


@pytest.mark.parametrize(
    ("name", "dataset", "samples"),
    [
        pytest.param("efficientnet-lite0", "photos", 9, marks=pytest.mark.long),
        ("digits", "digits", 450),
    ],
)
def test_an_exported_evaluation_runs_again_to_the_same_predictions(
    cluster: Cluster, tmp_path: Path, name: str, dataset: str, samples: int
) -> None:
    wanted = {"scenarios": online(samples), "outputs": samples}
    status = run(cluster, name, agents=["first"], **wanted)
    file, again = tmp_path / "reference.json", tmp_path / "again.json"
    cluster.mlscope("export", status.evaluation, "-o", str(file))
    asked = ("reproduce", str(file), "--agent", "strict", "--strict", "--out", str(again))
    told = json.loads(cluster.mlscope(*asked, "-o", "json", timeout=100))
    assert told["predictions_are_same"] is True
    aspects = {row["aspect"]: row for row in told["differences"]}
    assert aspects["predictions"]["note"] == f"identical, {samples} samples"
    assert aspects["accuracy"]["before"] == aspects["accuracy"]["now"]
    assert "ratio" in aspects["performance"]["note"]
    log, new = json.loads(file.read_text()), json.loads(again.read_text())
    assert [each["agent"] for each in (*log["machines"], *new["machines"])] == ["first", "strict"]
    assert log["subject"]["dataset"]["name"] == dataset
    assert log["runs"][0]["predictions_digest"] == new["runs"][0]["predictions_digest"] != ""


def test_a_file_that_was_altered_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    status = run(cluster, "identity", agents=["first"], scenarios=online(3))
    file = tmp_path / "reference.json"
    told = cluster.mlscope("export", status.evaluation, "-o", str(file))
    assert f"{file}: 1 run; repeat it on any cluster: mlscope reproduce" in told
    log = json.loads(file.read_text())
    log["runs"][0]["latency"]["median"] = 1.0
    file.write_text(json.dumps(log))
    assert cluster.mlscope("reproduce", str(file), code=2) == ""


def test_a_published_machine_is_asked_for_by_name(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.client() as client:
        hardware = client.catalog("agent").agents[0].announcement.hardware
    box = {"kind": "hardware", "name": "box", "architecture": hardware.architecture}
    huge = {**box, "name": "huge", "memory_bytes": 1 << 60}
    files = [tmp_path / f"{each['name']}.yml" for each in (box, huge)]
    for path, each in zip(files, (box, huge), strict=True):
        path.write_text(yaml.safe_dump(each))
    cluster.mlscope("manifest", "publish", *map(str, files))
    assert "huge" in cluster.mlscope("ls", "hardware")
    files[0].write_text(yaml.safe_dump({**box, "interconnect": "nvlink"}))
    cluster.mlscope("manifest", "publish", str(files[0]), code=1)
    asked = ("run", "identity", "--scenario", "online:queries=3", "-o", "json")
    told = json.loads(cluster.mlscope(*asked, "--need", "hardware=box"))
    with cluster.client() as client:
        status = client.evaluation(told["evaluation"]).status()
    assert status.subject is not None
    assert status.subject.hardware is not None
    assert status.subject.hardware.name == "box"
    assert cluster.mlscope(*asked, "--need", f"hardware={files[1]}", code=5) == ""
