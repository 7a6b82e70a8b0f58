"""The collectors' README says what the code does: collectors, frameworks, what no GPU ran."""

from pathlib import Path

import pytest

from services.agent.collectors import SHIPPED
from services.agent.collectors.cupti import collector as cupti
from services.agent.predictors.verified import UNVERIFIED_ON_GPU

README = Path(__file__).parents[4] / "services" / "agent" / "collectors" / "README.md"
TITLES = {
    "PyTorch": "pytorch",
    "TensorFlow": "tensorflow",
    "ONNX Runtime": "onnxruntime",
    "OpenVINO": "openvino",
    "JAX": "jax",
    "LiteRT": "litert",
    "TensorRT": "tensorrt",
}


def rows(section: str) -> dict[str, list[str]]:
    """Return a section's table by framework: layers, library, system, hardware."""
    text = README.read_text().partition(f"## {section}")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {TITLES[cells[0]]: cells[1:] for cells in lines if cells[0] in TITLES}


CPU, GPU = rows("On a CPU"), rows("On an NVIDIA GPU")


def test_every_collector_is_named() -> None:
    assert [name for name in SHIPPED if f"`{name}`" not in README.read_text()] == []


def test_every_framework_has_a_row_for_each_level() -> None:
    assert CPU.keys() == {*TITLES.values()} - {"tensorrt"}
    assert {len(cells) for cells in (*CPU.values(), *GPU.values())} == {4}


def test_what_no_gpu_ran_is_called_unverified() -> None:
    told = {name for name, cells in GPU.items() if "*unverified*" in " ".join(cells)}
    assert told == set(UNVERIFIED_ON_GPU)


@pytest.mark.parametrize("name", GPU)
def test_who_tells_of_kernels_is_who_would(name: str) -> None:
    teller = "cupti" if name in cupti.FRAMEWORKS else "kineto"
    assert GPU[name][2].startswith(f"`{teller}`")
