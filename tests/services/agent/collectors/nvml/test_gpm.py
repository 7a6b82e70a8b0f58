"""GPM's figures, from a library whose counters are renewed now and then; a GPU that goes away."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from services.agent.collectors.nvml import gpm as nvml_gpm
from services.agent.collectors.nvml.collector import Device, NvmlCollector

SM, OCCUPANCY, TENSOR, DRAM = 2, 3, 5, 10
MS = 1_000_000


class Lost(Exception):
    """NVML_ERROR_GPU_IS_LOST."""


class Chip:
    """As much of pynvml as GPM needs: `counters` stand still between two `renew`."""

    NVMLError = Lost
    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = SM, OCCUPANCY
    NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = TENSOR, DRAM
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self) -> None:
        self.counters, self.busy = 0, 50.0
        self.is_lost = False
        self.held: list[dict[str, int]] = []

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        """Return a handle."""
        return number

    def nvmlGpmQueryDeviceSupport(self, _: int) -> SimpleNamespace:  # noqa: N802
        """Say that it has GPM."""
        return SimpleNamespace(isSupportedDevice=1)

    def nvmlDeviceGetPowerUsage(self, _: int) -> int:  # noqa: N802
        """Return milliwatts."""
        if self.is_lost:
            raise Lost
        return 290_000

    def nvmlGpmSampleAlloc(self) -> dict[str, int]:  # noqa: N802
        """Return an empty sample."""
        self.held.append({})
        return self.held[-1]

    def nvmlGpmSampleGet(self, _: int, sample: dict[str, int]) -> None:  # noqa: N802
        """Fill a sample."""
        if self.is_lost:
            raise Lost
        sample["at"] = self.counters

    def nvmlGpmSampleFree(self, sample: dict[str, int]) -> None:  # noqa: N802
        """Free a sample: one that is held."""
        self.held = [each for each in self.held if each is not sample]

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:  # noqa: N802
        """Return a question."""
        places = [SimpleNamespace(value=0.0, nvmlReturn=0) for _ in range(4)]
        return SimpleNamespace(metrics=places)

    def nvmlGpmMetricsGet(self, wanted: SimpleNamespace) -> None:  # noqa: N802
        """Answer as NVML 580 does: 0, and of memory nothing, where the counters stood still."""
        assert any(wanted.sample1 is each for each in self.held)
        is_same = wanted.sample1["at"] == wanted.sample2["at"]
        for metric in wanted.metrics:
            metric.value = 0.0 if is_same else self.busy
            metric.nvmlReturn = 999 if is_same and metric.metricId == DRAM else 0

    def __getattr__(self, name: str) -> Any:
        """Refuse what else is asked."""

        def refuse(*_: object) -> int:
            raise Lost

        if name.startswith("nvmlDevice"):
            return refuse
        raise AttributeError(name)


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        """Return its time."""
        return self.ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(nvml_gpm, "now_ns", clock)
    monkeypatch.setattr(Chip, "NVML_CLOCK_SM", 0, raising=False)
    monkeypatch.setattr(Chip, "NVML_CLOCK_MEM", 1, raising=False)
    return clock


@pytest.fixture
def chip() -> Chip:
    return Chip()


@pytest.fixture
def device(chip: Chip, clock: Clock) -> Iterator[Device]:
    device = Device(chip, 0)
    yield device
    device.close()
    assert chip.held == []


def swept(device: Device, clock: Clock, at_ms: float) -> dict[str, float]:
    """Return GPM's figures of a sweep at some time."""
    clock.ns = int(at_ms * MS)
    return {
        each.series.removeprefix("nvml.gpm_"): each.value
        for each in device.sweep()
        if "gpm" in each.series
    }


def test_samples_too_close_tell_nothing_yet(chip: Chip, device: Device, clock: Clock) -> None:
    device.begin()
    chip.counters = 1
    assert [swept(device, clock, at) for at in (10, 50, 99)] == [{}, {}, {}]
    found = swept(device, clock, 100)
    assert found == dict.fromkeys(
        ("sm_utilisation", "sm_occupancy", "tensor_utilisation", "dram_bandwidth"), 50.0
    )
    assert swept(device, clock, 150) == {}
    assert len(chip.held) == 1


def test_counters_that_stood_still_are_no_zero(chip: Chip, device: Device, clock: Clock) -> None:
    device.begin()
    assert swept(device, clock, 120) == {}
    chip.counters = 1
    assert swept(device, clock, 130)["sm_utilisation"] == 50.0


def test_a_gpu_at_rest_is_zero(chip: Chip, device: Device, clock: Clock) -> None:
    device.begin()
    chip.counters, chip.busy = 1, 0.0
    assert swept(device, clock, 100)["dram_bandwidth"] == 0.0


def test_a_block_begins_with_a_sample_of_its_own(chip: Chip, device: Device, clock: Clock) -> None:
    clock.ns, chip.counters = 5000 * MS, 1
    device.begin()
    assert swept(device, clock, 5001) == {}
    assert swept(device, clock, 5100) == {}
    assert len(chip.held) == 1


def test_a_gpu_that_answers_again_is_read_again(chip: Chip, device: Device, clock: Clock) -> None:
    chip.is_lost = True
    with contextlib.suppress(Lost):
        device.begin()
    chip.is_lost, clock.ns = False, 500 * MS
    assert swept(device, clock, 500) == {}
    chip.counters = 1
    assert swept(device, clock, 600)["sm_utilisation"] == 50.0


def test_a_gpu_that_goes_away_is_said(chip: Chip, device: Device, clock: Clock) -> None:
    collector = NvmlCollector([device], 10.0)
    device.begin()
    assert [each.series for each in device.sweep()] == ["nvml.power"]
    chip.is_lost, clock.ns = True, 200 * MS
    assert list(device.sweep()) == []
    assert (device.attempts, device.failures) == (5, 2)
    collector.begin()
    assert collector.end().notes[-1].startswith("the GPU answered 0 of ")
