"""What NVML tells of a GPU while its roof is measured, with a simulated NVML."""

import sys
import time
from types import SimpleNamespace

import pytest

from services.agent.machine.roofline import gpu_watch
from services.agent.machine.roofline.gpu_arithmetic import TimedWork
from services.agent.machine.roofline.gpu_roof import measure_watched
from services.agent.machine.roofline.gpu_watch import GpuWatch, gpu_is_quiet
from tests.services.agent.machine.roofline.test_gpu_roof import Simulated


class NVMLError(Exception):
    """As the binding's."""


class Nvml:
    """A GPU of some use by others, held down for some reasons."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVMLError = 1, 0, NVMLError

    def __init__(self, uses: list[int], reasons: int = 0) -> None:
        self.uses, self.reasons, self.opened = uses, reasons, 0

    def nvmlInit(self) -> None:  # noqa: N802
        """Begin."""
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        """End."""
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        """Return a handle."""
        if uuid != "GPU-aa":
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, _: str) -> SimpleNamespace:  # noqa: N802
        """Return the next use, in percent."""
        return SimpleNamespace(gpu=self.uses.pop(0) if len(self.uses) > 1 else self.uses[0])

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: str) -> int:  # noqa: N802
        """Return the reasons."""
        return self.reasons

    def nvmlDeviceGetClockInfo(self, _: str, _kind: int) -> int:  # noqa: N802
        """Return MHz."""
        return 1980

    def nvmlDeviceGetTemperature(self, _: str, _kind: int) -> int:  # noqa: N802
        """Return degrees."""
        return 61

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:  # noqa: N802
        """Return mW."""
        return 699_500


class Watched(Simulated):
    """A GPU whose measurement takes long enough to be watched."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        time.sleep(0.05)


class Slowed(Simulated):
    """A GPU of which most tries take half as long again."""

    def product(self, precision: str, size: int) -> TimedWork:
        """Return what takes as long as a product, or longer."""
        return slowed(super().product(precision, size))

    def copy(self, count: int) -> TimedWork:
        """Return what takes as long as a copy, or longer."""
        return slowed(super().copy(count))


def slowed(work: TimedWork) -> TimedWork:
    """Return work of which three of four calls take half as long again."""
    calls = iter(range(1000))
    return lambda times: work(times) * (1.0 if next(calls) % 4 == 2 else 1.5)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "_USE_PERIOD_S", 0.0)
    monkeypatch.setattr(gpu_watch, "_POLL_S", 0.001)


def with_nvml(monkeypatch: pytest.MonkeyPatch, nvml: Nvml | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


def test_a_quiet_gpus_roof_has_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml([0], reasons=0x4)
    with_nvml(monkeypatch, nvml)
    found = measure_watched(0, "GPU-aa", [Watched])
    assert found.disturbance == ""
    assert found.peaks["bfloat16"][0].conditions == {
        "others": 0.0,
        "most_sm_clock_mhz": 1980,
        "most_celsius": 61,
        "most_power_w": 699,
        "is_power_capped": True,
    }
    assert nvml.opened == 0


@pytest.mark.parametrize(
    ("uses", "reasons", "disturbance"),
    [
        ([40], 0, "other processes used 40% of the GPU"),
        ([0], 0x40, "the GPU lowered its clocks (thermal slowdown by hardware)"),
        ([0], 0xA0, "the GPU lowered its clocks (thermal slowdown by software, power brake)"),
    ],
)
def test_others_and_slowed_clocks_disturb_it(
    monkeypatch: pytest.MonkeyPatch, uses: list[int], reasons: int, disturbance: str
) -> None:
    with_nvml(monkeypatch, Nvml(uses, reasons))
    found = measure_watched(0, "GPU-aa", [Watched])
    assert found.disturbance == disturbance
    assert {each.disturbance for each in found.ceilings} == {disturbance}
    assert found.for_run("bfloat16", 1).note.startswith(disturbance)
    assert not gpu_is_quiet("GPU-aa")


def test_others_that_begin_meanwhile_disturb_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_nvml(monkeypatch, Nvml([0, 0, 0, 0, 0, 100, 100, 70]))
    found = measure_watched(0, "GPU-aa", [Watched])
    assert found.disturbance == "other processes used 70% of the GPU"


def test_own_work_that_just_ended_is_not_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with_nvml(monkeypatch, Nvml([100, 60, 0, 0, 0]))
    assert GpuWatch("GPU-aa").others == 0.0


@pytest.mark.parametrize("uuid", ["GPU-aa", "number 0"])
def test_without_nvml_the_tries_tell(monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
    with_nvml(monkeypatch, None if uuid == "GPU-aa" else Nvml([90]))
    calm, slowed = (measure_watched(0, uuid, [kind]) for kind in (Watched, Slowed))
    assert (calm.disturbance, calm.peaks["float32"][0].uncertainty) == ("", 0.0)
    assert slowed.disturbance == "something slowed half of its tries by 33% or more"
    assert slowed.peaks["float32"][0].uncertainty == pytest.approx(1 / 3)
    assert slowed.peaks["float32"][0].measured == calm.peaks["float32"][0].measured
    assert gpu_is_quiet(uuid)
