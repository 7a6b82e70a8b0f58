"""What a machine says of itself."""

import os

import pytest

from schemas.agent import Accelerator
from services.agent.machine.hardware import accelerator_names, this_machine

NVIDIA = Accelerator(name="RTX 4090", vendor="nvidia")
INTEL = Accelerator(name="UHD Graphics", vendor="intel")
AMD = Accelerator(name="MI300X", vendor="amd")
BOARD = Accelerator(name="board", kind="fpga")


def test_a_machine_has_cores_and_memory() -> None:
    hardware = this_machine()
    assert 1 <= hardware.cores <= len(os.sched_getaffinity(0))
    assert hardware.host_cores == os.cpu_count()
    assert hardware.memory_bytes <= hardware.host_memory_bytes
    assert hardware.memory_bytes > 1 << 28
    assert hardware.architecture in ("amd64", "arm64")
    assert hardware.hostname


def test_cores_out_of_reach_are_the_host_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    hardware = this_machine()
    assert (hardware.cores, hardware.host_cores) == (1, 64)


def test_a_machine_says_how_it_is_built() -> None:
    hardware = this_machine()
    # A sandbox may hide how its host is built.
    assert hardware.sockets <= hardware.physical_cores <= hardware.host_cores
    assert bool(hardware.threads_per_core) == bool(hardware.physical_cores)


@pytest.mark.parametrize(
    ("gpus", "device", "names"),
    [
        ((INTEL, NVIDIA), "gpu", "RTX 4090"),
        ((INTEL, NVIDIA), "cuda:0", "RTX 4090"),
        ((NVIDIA, INTEL), "xpu", "UHD Graphics"),
        ((AMD, AMD, BOARD), "gpu", "MI300X"),
        ((AMD, INTEL), "gpu", "MI300X, UHD Graphics"),
        ((NVIDIA,), "cpu", ""),
    ],
)
def test_a_run_s_gpus_are_those_of_the_maker_that_its_device_means(
    gpus: tuple[Accelerator, ...], device: str, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.machine.hardware.accelerators", lambda: gpus)
    assert accelerator_names(device) == names
