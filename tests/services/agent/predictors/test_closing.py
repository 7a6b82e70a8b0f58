"""Closing a predictor gives its memory back: measured in a process of its own, by framework."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.services.agent.predictors.reopening import WEIGHT_BYTES

PACKAGES = {
    "jax": "jax",
    "litert": "ai_edge_litert",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", sorted(PACKAGES))
def test_opening_again_and_again_takes_no_more_memory(framework: str) -> None:
    if find_spec(PACKAGES[framework]) is None:
        pytest.skip(f"{PACKAGES[framework]} is not installed")
    said = subprocess.run(
        [sys.executable, "-m", "tests.services.agent.predictors.reopening", framework],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[4],
        check=False,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    found = json.loads(said.stdout.splitlines()[-1])
    # The first two openings may leave what a framework keeps for good: pools, kernels, caches.
    kept = found["resident"][-1] - found["resident"][1]
    assert kept < WEIGHT_BYTES, [each >> 20 for each in found["resident"]]
    assert found["opened"] > WEIGHT_BYTES // 4
