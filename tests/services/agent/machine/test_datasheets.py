"""Datasheets: a device by its name, and figures beside those measured."""

from pathlib import Path

import pytest

from schemas.run import Ceiling
from services.agent.machine.datasheets import (
    UNKNOWN,
    cpu_datasheet,
    gpu_datasheet,
    with_datasheet_figures,
)
from services.agent.machine.roofline.ceilings import PRECISIONS, Roof


@pytest.mark.parametrize(
    ("name", "precision", "tera", "bandwidth"),
    [
        ("NVIDIA H200", "bfloat16", 989.4, 4.8e12),
        ("NVIDIA H200 NVL", "bfloat16", 835.5, 4.8e12),
        ("NVIDIA H100 80GB HBM3", "tf32", 494.7, 3.35e12),
        ("NVIDIA H100 PCIe", "float32", 51, 2.0e12),
        ("NVIDIA A100-SXM4-40GB", "float16", 312, 1.555e12),
        ("A100-SXM4-80GB", "float64", 19.5, 2.039e12),
        ("NVIDIA A100 80GB PCIe", "int8", 624, 1.935e12),
        ("NVIDIA L4", "float32", 30.3, 300e9),
        ("NVIDIA L40S", "bfloat16", 362.05, 864e9),
        ("NVIDIA A10", "tf32", 62.5, 600e9),
        ("Tesla T4", "float16", 65, 320e9),
        ("Tesla V100-SXM2-16GB", "float32", 15.7, 900e9),
        ("Tesla V100-SXM2-32GB-LS", "float32", 15.7, 900e9),
        ("NVIDIA GeForce RTX 4090", "bfloat16", 165.2, 1.008e12),
    ],
)
def test_well_known_gpus(name: str, precision: str, tera: float, bandwidth: float) -> None:
    found = gpu_datasheet(name)
    assert found.peaks[precision] == pytest.approx(tera * 1e12)
    assert found.bandwidth == pytest.approx(bandwidth)
    assert found.source.startswith("NVIDIA ")
    assert set(found.peaks) <= set(PRECISIONS)


@pytest.mark.parametrize("name", ["NVIDIA H200 MIG 1g.18gb", "NVIDIA A10G", "NVIDIA X1", "", "L"])
def test_another_name_is_another_device(name: str) -> None:
    assert gpu_datasheet(name) == UNKNOWN


def _system(folder: Path, siblings: dict[int, str], khz: int) -> Path:
    for core, text in siblings.items():
        (folder / f"cpu{core}" / "topology").mkdir(parents=True)
        (folder / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(f"{text}\n")
        (folder / f"cpu{core}" / "cpufreq").mkdir()
        (folder / f"cpu{core}" / "cpufreq" / "cpuinfo_max_freq").write_text(f"{khz}\n")
    return folder


def test_a_cpus_peak_is_computed_of_cores_and_clock(tmp_path: Path) -> None:
    system = _system(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, 3_500_000)
    found = cpu_datasheet("AMD EPYC 7763 64-Core Processor", (0, 1, 2), system=system)
    # 2 cores, whichever of their threads are usable, 32 FLOP a cycle.
    assert found.peaks == {"float32": 2 * 3.5e9 * 32, "float64": 2 * 3.5e9 * 16}
    assert found.bandwidth is None
    assert "2 cores at 3.5 GHz" in found.source


def test_a_cpu_without_clock_or_of_no_known_name_has_none(tmp_path: Path) -> None:
    assert cpu_datasheet("AMD EPYC 7763", (0,), system=tmp_path) == UNKNOWN
    system = _system(tmp_path, {0: "0"}, 3_500_000)
    assert cpu_datasheet("AMD EPYC", (0,), system=system) == UNKNOWN


def test_a_datasheet_stands_beside_what_was_measured() -> None:
    copy = {0: Ceiling(measured=4.3e12, method="copy")}
    roof = Roof("gpu", "NVIDIA H200", {"bfloat16": {0: Ceiling(measured=7.9e14)}}, copy)
    found = with_datasheet_figures(roof, gpu_datasheet(roof.device))
    assert found.peaks["bfloat16"][0].measured == 7.9e14
    assert found.peaks["bfloat16"][0].datasheet == pytest.approx(989.4e12)
    assert found.peaks["int8"][0].measured is None
    assert found.bandwidths[0].datasheet == pytest.approx(4.8e12)
    assert found.bandwidths[0].method == (
        "copy; datasheet: NVIDIA H200 Tensor Core GPU datasheet (SXM)"
    )
    assert with_datasheet_figures(roof, UNKNOWN) == roof


def test_a_datasheet_tells_nothing_of_fewer_threads(tmp_path: Path) -> None:
    system = _system(tmp_path, {0: "0", 1: "1"}, 3_000_000)
    known = {1: Ceiling(measured=1.0), 2: Ceiling(measured=2.0)}
    sheet = cpu_datasheet("AMD EPYC 7763", (0, 1), system=system)
    found = with_datasheet_figures(Roof("cpu", "", {"float32": known}, known), sheet)
    assert found.peaks["float32"][1].datasheet is None
    assert found.peaks["float32"][2].datasheet == 2 * 3e9 * 32
    assert found.bandwidths == known
