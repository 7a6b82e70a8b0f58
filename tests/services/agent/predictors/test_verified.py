"""A run on a path that nobody could try says so beside its figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.run import RunCompleted
from services.agent.predictors import OpenRequest, predictor_named, verified
from services.agent.predictors.verified import UNVERIFIED_ON_GPU, unverified_caveat
from services.agent.worker import opening as opening_module
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order


@pytest.mark.parametrize("framework", sorted(UNVERIFIED_ON_GPU))
def test_a_path_that_never_ran_on_a_gpu_is_doubted_there_alone(framework: str) -> None:
    assert unverified_caveat(framework, "gpu").startswith(
        f"unverified: {UNVERIFIED_ON_GPU[framework]}"
    )
    assert unverified_caveat(framework, "cpu") == ""


@pytest.mark.parametrize(("device", "maker"), [("rocm", "AMD"), ("xpu", "Intel"), ("mps", "Apple")])
def test_pytorch_on_other_vendors_gpus_is_doubted(device: str, maker: str) -> None:
    caveat = unverified_caveat("pytorch", device)
    assert caveat.startswith(f"unverified: PyTorch for {maker}'s GPUs was never run")


@pytest.mark.parametrize("framework", ["pytorch", "jax", "onnxruntime"])
def test_what_ran_on_a_gpu_is_not_doubted(framework: str) -> None:
    assert unverified_caveat(framework, "gpu") == ""


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_run_on_an_unverified_path_carries_it_in_its_record(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opening(framework: str) -> Any:
        def opened(request: OpenRequest) -> Any:
            predictor: Any = predictor_named(framework)(request)
            predictor.opened = replace(predictor.opened, device=device)
            return predictor

        return opened

    monkeypatch.setattr(opening_module, "predictor_named", opening)
    monkeypatch.setattr(verified, "UNVERIFIED_ON_GPU", {"onnxruntime": "a provider"})
    session = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    order = an_order(a_subject(), (a_run(),))
    (ended,) = Group(session, order, Control(), lambda _: True, lambda _: None).perform()
    session.close()
    assert isinstance(ended, RunCompleted)
    assert ended.conditions.device == device
    caveats = [each for each in ended.caveats if each.startswith("unverified: a provider")]
    assert len(caveats) == (device == "gpu")
