"""NVML's series, from a driver that answers some: samples, units, throttling, bounds."""

from collections.abc import Callable, Iterator

import pytest

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import CollectorRequest, CollectorUnavailable
from services.agent.collectors.nvml import collector as nvml
from services.agent.collectors.nvml.collector import Device, NvmlCollector, device_of
from services.agent.collectors.nvml.series import Sample, notes_of, spans_of
from services.agent.predictors import Opened

ANSWERS: dict[str, Callable[..., int]] = {
    "nvmlDeviceGetHandleByIndex": lambda number: number,
    "nvmlDeviceGetPowerUsage": lambda _: 120_500,
    "nvmlDeviceGetClockInfo": lambda _, clock: {1: 1980}[clock],
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 4,
    "nvmlDeviceGetTemperature": lambda _, __: 38,
}
"""What the driver tells; clocks of memory it does not."""


class Driver:
    """As much of pynvml as a device needs."""

    NVMLError = KeyError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Return what answers, or what refuses."""
        return ANSWERS.get(name, self._refused)

    def _refused(self, *_: object) -> int:
        raise KeyError


@pytest.fixture
def device() -> Device:
    return Device(Driver(), 0)


@pytest.fixture
def collector(device: Device) -> Iterator[NvmlCollector]:
    collector = NvmlCollector([device], 100.0)
    yield collector
    collector.close()


def test_a_device_gives_what_its_driver_answers(device: Device) -> None:
    samples = {each.series: each.value for each in device.sweep()}
    assert samples == {
        "nvml.power": 120.5,
        "nvml.clock_sm": 1980,
        "nvml.throttle_reasons": 4,
        "nvml.temperature": 38,
    }


def test_a_block_leaves_samples_with_their_units(collector: NvmlCollector) -> None:
    collector.begin()
    collected = collector.end()
    assert {span.kind for span in collected.spans} == {SpanKind.SAMPLE}
    power = next(span for span in collected.spans if span.name == "nvml.power")
    assert power.attributes == {"value": 120.5, "unit": "W", "device": 0}
    assert power.duration_ns == 0
    assert any("throttled in" in note for note in collected.notes)
    assert collector.end().spans == ()


def test_more_samples_than_kept_are_counted(
    collector: NvmlCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "MAX_SAMPLES", 3)
    collector.begin()
    collected = collector.end()
    assert collected.spans == ()
    assert collected.dropped >= 4


def test_clocks_that_were_free_need_no_note() -> None:
    free = [Sample(1, 0, "nvml.throttle_reasons", mask) for mask in (0, 1, 2)]
    assert notes_of(free) == ()
    slowed = [*free, Sample(2, 0, "nvml.throttle_reasons", 0x40)]
    assert notes_of(slowed) == ("the GPU's clocks were throttled in 1 of 4 samples",)


def test_a_series_without_a_known_unit_is_a_number() -> None:
    (span,) = spans_of([Sample(5, 1, "other", 7.0)], 12)
    assert (span.start_ns, span.thread) == (5, 12)
    assert (span.attributes or {})["unit"] == "1"


@pytest.mark.parametrize("rate_hz", [0, -1, 1000])
def test_a_rate_out_of_bounds_is_refused(rate_hz: float) -> None:
    opened = Opened("pytorch", "2", (), (), "gpu", "", "float32", 1, {})
    request = CollectorRequest(opened, Level.SYSTEM, {"rate_hz": rate_hz})
    with pytest.raises(CollectorUnavailable, match="rate_hz"):
        nvml.open_collector(request)


@pytest.mark.parametrize(
    ("device", "visible", "used", "label"),
    [
        ("cuda", None, 0, 0),
        ("cuda:1", None, 1, 1),
        ("cuda:1", "2,0", 0, 1),
        ("", "2", 2, 0),
    ],
)
def test_the_run_s_gpu_is_sampled_by_the_framework_s_number(
    device: str, visible: str | None, used: int, label: int
) -> None:
    devices = [Device(Driver(), number) for number in range(3)]
    opened = Opened("pytorch", "2", (), (), "gpu", "", "float32", 1, {"device": device})
    (found,) = device_of(devices, opened, visible)
    assert (found.number, found.label) == (used, label)
    assert {sample.device for sample in found.sweep()} == {label}


def test_no_other_gpu_s_power_passes_as_the_run_s() -> None:
    devices = [Device(Driver(), number) for number in range(2)]
    opened = Opened("pytorch", "2", (), (), "gpu", "", "float32", 1, {"device": "cuda"})
    with pytest.raises(CollectorUnavailable, match="GPU-5d3c"):
        device_of(devices, opened, "GPU-5d3c")
    assert device_of(devices[:1], opened, "GPU-5d3c") == devices[:1]


def test_a_run_on_a_cpu_samples_no_gpu(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "devices", lambda: [device])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert nvml.availability().devices == ("gpu",)
