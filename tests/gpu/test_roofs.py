"""A GPU's roof as it is measured there."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

pytest.importorskip("torch")

import torch

from services.agent.host.roofs.devices import gpu_device
from services.agent.host.roofs.keeping import DeviceRoofs
from services.agent.host.roofs.stored import hardware_with_roofs
from services.agent.machine.datasheets import UNKNOWN, gpu_datasheet
from services.agent.machine.hardware import this_machine
from services.agent.machine.roofline.ceilings import ALL_THREADS, PRECISIONS
from services.agent.machine.roofline.gpu_arithmetic import WithTorch
from services.agent.machine.roofline.gpu_roof import measure_gpu, measure_watched
from services.agent.machine.roofline.gpu_watch import gpu_is_quiet

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none")


def test_no_figure_is_above_its_datasheet_nor_far_below() -> None:
    found = measure_gpu(0, [WithTorch])
    sheet = gpu_datasheet(found.device)
    if sheet == UNKNOWN:
        pytest.skip(f"no datasheet of {found.device}")
    told = {name: found.peaks[name][ALL_THREADS].measured or 0.0 for name in sheet.peaks}
    shares = {name: told[name] / sheet.peaks[name] for name in told}
    assert all(0.3 < share < 1.1 for share in shares.values()), shares
    assert 0.5 < (found.bandwidths[ALL_THREADS].measured or 0.0) / (sheet.bandwidth or 1.0) < 1.0


async def test_an_agent_measures_a_gpu_once_and_announces_it(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    roofs = DeviceRoofs(tmp_path / "roofs", tmp_path / "lock")
    found = await roofs.roof_of_device("gpu")
    assert set(found.peaks) <= set(PRECISIONS)
    assert found.note == ""
    assert roofs.has_news
    assert gpu_device(0) in roofs.attempts
    (first, *_) = hardware_with_roofs(this_machine(), roofs.stored_roof).accelerators
    assert first.peak_flops["bfloat16"] == found.peaks["bfloat16"][ALL_THREADS]
    assert first.uuid


def test_a_quiet_gpus_roof_tells_its_conditions() -> None:
    pytest.importorskip("pynvml")
    uuid = gpu_device(0).device
    found = measure_watched(0, uuid, [WithTorch])
    assert found.disturbance == ""
    conditions = found.peaks["float32"][ALL_THREADS].conditions
    assert conditions["others"] < 0.1
    assert conditions["most_sm_clock_mhz"] > 300
    assert conditions["most_power_w"] > 50
    assert max(each.uncertainty or 0.0 for each in found.ceilings) < 0.2
    assert gpu_is_quiet(uuid)


BUSY = """
import random, sys, time
import torch
factor = torch.randn((4096, 4096), device="cuda")
print("ready", flush=True)
sys.stdin.readline()
pause_s = float(sys.argv[1])
while True:
    for _ in range(50):
        factor @ factor
    torch.cuda.synchronize()
    time.sleep(random.uniform(0, pause_s))
"""


@contextmanager
def other_process(pause_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that multiplies on the GPU from the first line it reads on, with pauses."""
    command = [sys.executable, "-c", BUSY, str(pause_s)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            yield other
        finally:
            other.kill()


def begin(other: subprocess.Popen[bytes]) -> None:
    """Let it multiply."""
    assert other.stdin is not None
    other.stdin.write(b"\n")
    other.stdin.flush()


def test_others_that_begin_while_a_roof_is_measured_disturb_it() -> None:
    pytest.importorskip("pynvml")
    uuid = gpu_device(0).device
    with other_process(0.2) as other:
        # NVML's use is read in the first second.
        timer = Timer(2.0, begin, [other])
        timer.start()
        found = measure_watched(0, uuid, [WithTorch])
        timer.join()
    print({c.method: round(c.uncertainty or 0.0, 3) for c in found.ceilings}, found.disturbance)  # noqa: T201
    assert found.disturbance


def test_others_on_the_gpu_disturb_its_roof() -> None:
    pytest.importorskip("pynvml")
    with other_process(0.0) as other:
        begin(other)
        time.sleep(1.0)
        uuid = gpu_device(0).device
        assert not gpu_is_quiet(uuid)
        found = measure_watched(0, uuid, [WithTorch])
    assert found.disturbance.startswith("other processes used ")
    assert found.disturbance.endswith("% of the GPU")
