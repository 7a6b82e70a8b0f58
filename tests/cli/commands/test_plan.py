"""`plan`, `manifest check`, `schemas`, `doctor`: no broker is needed."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from cli import exits
from schemas.plan import OfflinePlan
from tests.cli.conftest import CommandLine
from tests.stand_ins import StandIns

SHIPPED = sorted(str(path) for path in Path("manifests").glob("*/*.yml"))


@pytest.fixture
def alone(tmp_path: Path) -> CommandLine:
    return CommandLine(MLSCOPE_DATA=str(tmp_path))


async def test_a_plan_is_for_one_machine_and_keeps_its_request(
    alone: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    arguments = ("--scenario", "poisson", "--trace-level", "framework", "--agent", "far")
    assert (await alone("plan", "tiny-cnn", *arguments, "--out", str(path))).code == exits.OK
    made = OfflinePlan.model_validate_json(path.read_text())
    assert {session.agent for session in made.plan.sessions} == {"far"}
    assert {run.pacing for session in made.plan.sessions for run in session.runs} == {"local"}
    assert made.plan.subject.framework_version == ""
    assert made.request is not None
    assert made.request.agents == ("far",)


@pytest.mark.parametrize("device", ["cpu", "cuda", "gpu"])
async def test_a_plan_presumes_the_machine_it_asks_for(alone: CommandLine, device: str) -> None:
    need = ("--need", "accelerator=H200", "--need", "accelerator_memory_bytes=1000")
    ended = await alone("plan", "identity", "--device", device, *(need if device != "cpu" else ()))
    assert ended.code == exits.OK, ended.err
    assert json.loads(ended.out)["plan"]["subject"]["device"] == device


def own_in(folder: Path) -> str:
    """Write a model and samples of one's own; return the manifest's path."""
    model = yaml.safe_load(Path("manifests/models/identity.yml").read_text())
    model["model"] = {"graph_path": "m.onnx"}
    (folder / "m.onnx").write_text("graph")
    (folder / "own.yml").write_text(yaml.safe_dump(model))
    np.save(folder / "x.npy", np.zeros((3, 2), np.float32))
    return str(folder / "own.yml")


async def test_a_plan_tells_what_must_be_brought_along(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    ended = await mlscope("plan", own_in(tmp_path), "--dataset", str(tmp_path / "x.npy"))
    assert ended.code == exits.OK, ended.err
    assert "artifact:" not in ended.out
    made = OfflinePlan.model_validate_json(ended.out).plan.subject.model.model
    digest = hashlib.sha256(b"graph").hexdigest()
    assert (made.graph_path, made.checksum) == ("m.onnx", f"sha256:{digest}")
    assert "copy to models/ of the manifests on that machine" in ended.err
    assert f"(MLSCOPE_MANIFESTS): {tmp_path / 'x.npy'}" in ended.err


async def test_a_plan_tells_what_it_can_not_certify(alone: CommandLine) -> None:
    ended = await alone("plan", "tiny-cnn", "--scenario", "poisson:rate_hz=20")
    assert ended.code == exits.OK, ended.err
    assert "its 99th percentile needs 662 answered queries, which take 33.1 s" in ended.err
    ended = await alone("plan", "tiny-cnn", "--scenario", "poisson:rate_hz=80")
    assert "answered queries" not in ended.err


async def test_a_plan_refuses_what_the_scheduler_would(alone: CommandLine) -> None:
    ended = await alone("plan", "tiny-cnn", "--framework", "tensorflow")
    assert (ended.code, "onnxruntime" in ended.err) == (exits.USAGE, True)


async def test_shipped_manifests_check_and_broken_ones_do_not(
    alone: CommandLine, tmp_path: Path
) -> None:
    assert (await alone("manifest", "check", *SHIPPED)).code == exits.OK
    broken = tmp_path / "broken.yml"
    broken.write_text(
        "{name: b, version: 1.0.0, framework: {name: onnxruntime}, model: {graph_path: m},"
        " inputs: [{type: image, steps: [{sharpen: null}]}], outputs: []}"
    )
    ended = await alone("manifest", "check", SHIPPED[0], str(broken))
    assert ended.code == exits.USAGE
    assert "sharpen" in ended.err
    assert SHIPPED[0] in ended.out


async def test_the_contract_is_written_where_asked(alone: CommandLine, tmp_path: Path) -> None:
    assert (await alone("schemas", "--out", str(tmp_path / "v1"))).code == exits.OK
    assert json.loads((tmp_path / "v1" / "evaluate.json").read_text())["properties"]["model"]


async def test_the_doctor_finds_what_tests_run_on(alone: CommandLine) -> None:
    findings = {row["check"]: row for row in (await alone("doctor", "-o", "json")).json()}
    for name in ("python", "nats-server", "postgres", "framework onnxruntime"):
        assert findings[name]["state"] == "ok", findings[name]
    assert all(row["advice"] for row in findings.values() if row["state"] == "missing")
