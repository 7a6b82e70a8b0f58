"""One network's layers in every framework: what holds of each capture.

EfficientNet-Lite0 in six forms, each form's frameworks in a process of their own. `make test`
traces what opens ONNX, `make test-all` also what opens the other forms, which take long to make.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.consistency import FILES
from schemas.level import Level

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[4]
PROCESSES = (
    ("make-pytorch", ("pytorch", "torchscript")),
    ("make-onnx", ("onnxruntime", "openvino")),
    ("make-tensorflow", ("tensorflow", "litert")),
)
"""What makes the forms, and the frameworks that a process holds together."""


def marked(frameworks: Iterable[str]) -> list[Any]:
    """Return frameworks as parameters of tests, all but those that open ONNX as long."""
    quick = ("onnxruntime", "openvino")
    return [
        pytest.param(name, marks=[pytest.mark.long] * (name not in quick)) for name in frameworks
    ]


EVERY = marked(FILES)
TRACED = marked(name for name in FILES if name != "litert")
#: 2 x the multiply-adds of its convolutions and last layer; what is elementwise comes on top
PRODUCT_FLOPS = 769e6


def run(*words: str) -> str:
    said = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert said.returncode == 0, said.stderr[-2000:]
    return said.stdout


class Traces(dict[str, Any]):
    """What was told of each framework; its process runs when one of its frameworks is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, framework: str) -> Any:
        (process,) = (one for one in PROCESSES if framework in one[1])
        verb, frameworks = process
        run("-m", "benchmarks.consistency", verb, str(self._folder))
        tracing = "tests.services.agent.predictors.tracing"
        said = run("-m", tracing, str(self._folder), *frameworks)
        self.update(json.loads(said.splitlines()[-1]))
        return self[framework]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Trace the network in every framework that a test asks about."""
    if find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("efficientnet_lite_pytorch is not installed")
    return Traces(tmp_path_factory.mktemp("forms"))


def calls_of(told: Any) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield begin, end and layers (name, start, duration, attributes) of each call."""
    for capture in told["captures"]:
        for (began, ended), layers in zip(capture["spans"], capture["layers"], strict=True):
            yield began, ended, layers


@pytest.mark.parametrize("framework", TRACED)
def test_each_layer_lies_in_its_call_in_order(told: dict[str, Any], framework: str) -> None:
    calls = list(calls_of(told[framework]))
    assert len(calls) == 6
    for began, ended, layers in calls:
        starts = [start for _, start, _, _ in layers]
        assert starts == sorted(starts)
        assert began <= starts[0]
        assert all(start + duration <= ended for _, start, duration, _ in layers)
        assert 0 < sum(duration for _, _, duration, _ in layers) <= ended - began


@pytest.mark.parametrize("framework", TRACED)
def test_layers_are_the_same_in_every_call(told: dict[str, Any], framework: str) -> None:
    named = {
        tuple((name, each["index"], each["type"]) for name, _, _, each in layers)
        for _, _, layers in calls_of(told[framework])
    }
    assert len(named) == 1
    (layers,) = named
    assert sorted(index for _, index, _ in layers) == list(range(len(layers)))
    assert len(layers) > 50


@pytest.mark.parametrize("framework", TRACED)
def test_frameworks_agree_on_what_is_computed(told: dict[str, Any], framework: str) -> None:
    _, _, layers = next(calls_of(told[framework]))
    flops = sum(each.get("flops") or 0 for _, _, _, each in layers)
    assert PRODUCT_FLOPS <= flops <= 1.06 * PRODUCT_FLOPS
    last = [each for _, _, _, each in layers if [1, 1000] in (each["shape"], *each["shape"])]
    assert last
    assert all(each["memory_bytes"] >= 0 for _, _, _, each in layers if "memory_bytes" in each)
    # Each of its 4.6 million weights is read once at least.
    assert sum(each.get("bytes_read") or 0 for _, _, _, each in layers) > 4 * 4_600_000


@pytest.mark.parametrize("framework", TRACED)
def test_memory_is_measured_where_the_framework_tells_it(
    told: dict[str, Any], framework: str
) -> None:
    _, _, layers = next(calls_of(told[framework]))
    known = [each for _, _, _, each in layers if "memory_bytes" in each]
    assert {each["memory_kind"] for each in known} == {
        "outputs" if framework == "openvino" else "measured"
    }
    assert len(known) > 50
    # 112 x 112 x 32 floats leave its first convolution.
    assert max(each["memory_bytes"] for each in known) >= 4 * 112 * 112 * 32


@pytest.mark.parametrize("framework", EVERY)
def test_a_capture_changes_nothing(told: dict[str, Any], framework: str) -> None:
    found = told[framework]
    assert found["same_after"]
    assert found["clean"]
    assert all(capture["difference"] < 1e-4 for capture in found["captures"])


@pytest.mark.parametrize("framework", EVERY)
def test_the_level_is_said_and_why_no_deeper(told: dict[str, Any], framework: str) -> None:
    found = told[framework]
    traceable = framework != "litert"
    assert found["deepest"] == (Level.FRAMEWORK if traceable else Level.MODEL)
    assert bool(found["captures"]) == traceable
    assert ("LiteRT" in found["reason"]) == (not traceable)
    assert all(capture["notes"] for capture in found["captures"])
