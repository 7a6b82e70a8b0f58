"""What opening says and closing gives back, by framework, in a process of its own."""

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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

FRAMEWORKS = [
    pytest.param(name, marks=[pytest.mark.long] * (name in ("jax", "pytorch", "tensorflow")))
    for name in sorted(PACKAGES)
]
"""Three take long to open: their own tests see in every run what closing frees."""

THREADS = 1
"""That are asked for: what a framework has by default is the machine's."""


@cache
def said_by(framework: str) -> dict[str, Any]:
    """Return what opening and closing a model again and again said, of a process of its own."""
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
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", FRAMEWORKS)
class TestOpeningAndClosing:
    """One process a framework serves both."""

    def test_again_and_again_takes_no_more_memory(self, framework: str) -> None:
        """What closing leaves is less than a layer of the model."""
        found = said_by(framework)
        # The first two openings may leave what a framework keeps for good: pools, kernels, caches.
        kept = found["resident"][-1] - found["resident"][1]
        assert kept < WEIGHT_BYTES, [each >> 20 for each in found["resident"]]

    def test_says_the_conditions_in_effect(self, framework: str) -> None:
        """Each predictor reports all of them, as they are and not as they were asked for."""
        told = said_by(framework)["opened"]
        assert told["framework"] == framework
        installed = version(packages_distributions()[PACKAGES[framework].split(".")[0]][0])
        # Some say their commit as well.
        assert told["framework_version"].startswith(installed)
        assert (told["device"], told["threads"]) == ("cpu", THREADS)
        assert told["precision"].startswith("float32")
        assert told["provider"]
        assert told["load_ns"] > 0 < told["first_run_ns"]
        assert told["memory_bytes"] > WEIGHT_BYTES // 4
