"""NVML: power, clocks, throttling, utilisation, temperature and memory, sampled during a run.

A thread of its own reads at a low rate (10 per second) while a block is measured. A sweep that
takes long is noted. Needs `nvidia-ml-py` and an NVIDIA driver.
"""

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.nvml.gpm import gpm_of
from services.agent.collectors.nvml.series import Sample, notes_of, spans_of
from services.agent.predictors import Opened

OPTIONS: tuple[str, ...] = ("rate_hz",)
RATE_HZ = 10.0
MAX_SAMPLES = 200_000
"""Values kept of one block; further ones are dropped and counted."""
_TEMPERATURE_GPU = 0

Read = Callable[[], float]
_Value = TypeVar("_Value")


def availability() -> Availability:
    """Return level system where NVML is installed and sees a GPU."""
    if importlib.util.find_spec("pynvml") is None:
        return Availability((), "the package nvidia-ml-py is not installed")
    try:
        gpus = devices()
    except CollectorUnavailable as error:
        return Availability((), str(error))
    return Availability((Level.SYSTEM,), "" if gpus else "NVML sees no GPU", devices=("gpu",))


def open_collector(request: CollectorRequest) -> "NvmlCollector":
    """Open the sampler, with the option `rate_hz`. Raises CollectorUnavailable."""
    rate_hz = float(request.options.get("rate_hz", RATE_HZ))
    if not 0 < rate_hz <= 100:
        raise CollectorUnavailable(
            "nvml", f"rate_hz is {rate_hz:g}; it must be above 0 and at most 100"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return NvmlCollector(device_of(devices(), request.opened, visible), rate_hz)


def device_of(
    candidates: Sequence["Device"], opened: Opened, visible: str | None
) -> list["Device"]:
    """Return the device that a session runs on, labelled as its framework counts it.

    `candidates`: all that NVML sees. `opened`: the session's model, an option of which names the
    device. `visible`: CUDA_VISIBLE_DEVICES; frameworks count within it, NVML counts all devices.
    Raises CollectorUnavailable where it is not known which of several devices it is, as when they
    are named by UUID there: the power of another would pass as the run's.
    """
    _, _, text = str(opened.options.get("device", "")).partition(":")
    label = number = int(text) if text.isdigit() else 0
    if visible:
        name = dict(enumerate(visible.split(","))).get(number, "").strip()
        number = int(name) if name.isdigit() else -1
    matching = [device for device in candidates if device.number == number or len(candidates) == 1]
    if not matching:
        raise CollectorUnavailable("nvml", f"CUDA_VISIBLE_DEVICES={visible} has no number for it")
    for device in matching:
        device.label = label
    return matching


class NvmlCollector:
    """Samples every series of every device on its own thread while a block runs."""

    name = "nvml"
    level = Level.SYSTEM

    def __init__(self, sampled_devices: Sequence["Device"], rate_hz: float) -> None:
        self._devices, self._period_s = sampled_devices, 1 / rate_hz
        self._samples: list[Sample] = []
        self._dropped = 0
        self._sweeps_ns: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to sample."""
        self._samples, self._dropped, self._sweeps_ns = [], 0, []
        self._stop.clear()
        self._thread = threading.Thread(target=self._run_sampler, name="nvml", daemon=True)
        self._thread.start()

    def end(self) -> Collected:
        """Stop sampling, and return the samples as spans."""
        thread, self._thread = self._thread, None
        if thread is None:
            return Collected(())
        self._stop.set()
        thread.join()
        notes = [*notes_of(self._samples)]
        spent_ns = sum(self._sweeps_ns)
        if spent_ns > 0.05 * self._period_s * 1e9 * len(self._sweeps_ns):
            mean_ms = spent_ns / len(self._sweeps_ns) / 1e6
            notes.append(f"a sweep of NVML took {mean_ms:.1f} ms on its own thread during the run")
        attempts = sum(device.attempts for device in self._devices)
        failures = sum(device.failures for device in self._devices)
        if failures:  # the GPU may be gone
            notes.append(f"the GPU answered {attempts - failures} of {attempts} reads")
        spans = spans_of(self._samples, thread.native_id or 0)
        return Collected(tuple(spans), self._dropped, tuple(notes))

    def close(self) -> None:
        """Stop sampling, if it is still going on, and close the devices."""
        self.end()
        for device in self._devices:
            device.close()

    def _run_sampler(self) -> None:
        for device in self._devices:
            device.begin()
        while True:
            began = now_ns()
            for device in self._devices:
                samples = list(device.sweep())
                if len(self._samples) + len(samples) > MAX_SAMPLES:
                    self._dropped += len(samples)
                else:
                    self._samples.extend(samples)
            self._sweeps_ns.append(now_ns() - began)
            if self._stop.wait(self._period_s):
                return


class Device:
    """One GPU, with the series that it supports: those whose first read succeeds."""

    def __init__(self, library: Any, number: int) -> None:
        self.number = number
        #: its number in samples: as the framework counts, whose kernels have it too
        self.label = number
        handle = library.nvmlDeviceGetHandleByIndex(number)
        self._error: type[Exception] = library.NVMLError
        self._gpm = gpm_of(library, handle)
        #: reads in this block, and how many of them failed
        self.attempts = self.failures = 0

        def energy_j() -> float:
            return float(library.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000

        #: joules since the driver was loaded (Volta and later); None where it is not supported
        self.energy_j: Read | None = energy_j if self._supports(energy_j) else None
        reads = _reads(library, handle)
        self._reads = {series: read for series, read in reads.items() if self._supports(read)}

    def begin(self) -> None:
        """Begin a block, whose figures do not include the time before it."""
        self.attempts = self.failures = 0
        if self._gpm is not None:
            self._try_read(self._gpm.begin)

    def sweep(self) -> Iterator[Sample]:
        """Yield one value of each series; reads that fail are counted."""
        for series, read in self._reads.items():
            at_ns = now_ns()
            value = self._try_read(read)
            if value is not None:
                yield Sample(at_ns, self.label, series, value)
        if self._gpm is not None:
            at_ns = now_ns()
            for series, value in (self._try_read(self._gpm.read) or {}).items():
                yield Sample(at_ns, self.label, series, value)

    def close(self) -> None:
        """Free its resources."""
        if self._gpm is not None:
            self._gpm.close()

    def _try_read(self, read: Callable[[], _Value]) -> _Value | None:
        self.attempts += 1
        try:
            return read()
        except self._error:
            self.failures += 1
            return None

    def _supports(self, read: Read) -> bool:
        try:
            read()
        except self._error:
            return False
        return True


def _reads(library: Any, handle: Any) -> Mapping[str, Read]:
    """Return the read of each series; energy, at 4 ms per call, is read by the collector energy."""
    return {
        "nvml.power": lambda: library.nvmlDeviceGetPowerUsage(handle) / 1000,
        "nvml.clock_sm": lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM),
        "nvml.clock_memory": lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_MEM),
        "nvml.throttle_reasons": lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "nvml.utilisation": lambda: library.nvmlDeviceGetUtilizationRates(handle).gpu,
        "nvml.utilisation_memory": lambda: library.nvmlDeviceGetUtilizationRates(handle).memory,
        "nvml.temperature": lambda: library.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU),
        "nvml.memory_used": lambda: library.nvmlDeviceGetMemoryInfo(handle).used,
    }


def devices() -> list[Device]:
    """Return the GPUs that NVML sees. Raises CollectorUnavailable."""
    try:
        pynvml = import_module("pynvml")
    except ImportError as error:
        raise CollectorUnavailable("nvml", "the package nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        return [Device(pynvml, number) for number in range(count)]
    except pynvml.NVMLError as error:
        raise CollectorUnavailable("nvml", str(error)) from error
