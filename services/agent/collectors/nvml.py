"""NVML: power, clocks, throttling, utilisation, temperature and memory, sampled beside a run.

A thread of its own reads at a low rate (10 a second) while a block is measured. The cost of a
sweep is measured and said. Needs `nvidia-ml-py`, and an NVIDIA driver.
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
from services.agent.collectors.nvml_gpm import gpm_of
from services.agent.collectors.nvml_series import Sample, notes_of, spans_of
from services.agent.predictors import Opened

OPTIONS: tuple[str, ...] = ("rate_hz",)
RATE_HZ = 10.0
MOST_SAMPLES = 200_000
"""Values kept of one block: what comes after is dropped and counted."""
_TEMPERATURE_GPU = 0

Read = Callable[[], float]
_Answer = TypeVar("_Answer")


def availability() -> Availability:
    """Say whether NVML answers here."""
    if importlib.util.find_spec("pynvml") is None:
        return Availability((), "the package nvidia-ml-py is not installed")
    try:
        found = devices()
    except CollectorUnavailable as error:
        return Availability((), str(error))
    return Availability((Level.SYSTEM,), "" if found else "NVML sees no GPU", devices=("gpu",))


def open_collector(request: CollectorRequest) -> "NvmlCollector":
    """Open the sampler; option `rate_hz`. Raises CollectorUnavailable."""
    rate_hz = float(request.options.get("rate_hz", RATE_HZ))
    if not 0 < rate_hz <= 100:
        raise CollectorUnavailable("nvml", f"rate_hz {rate_hz:g} is not above 0 and at most 100")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return NvmlCollector(used_of(devices(), request.opened, visible), rate_hz)


def used_of(devices: Sequence["Device"], opened: Opened, visible: str | None) -> list["Device"]:
    """Return the device that a session runs on, labelled as its framework counts it.

    `visible` is CUDA_VISIBLE_DEVICES: frameworks count within it, NVML counts all. Raises
    CollectorUnavailable where one of several can't be told, as when they are named by UUID there:
    another's power would pass as the run's.
    """
    _, _, told = str(opened.options.get("device", "")).partition(":")
    asked = number = int(told) if told.isdigit() else 0
    shown = [each.strip() for each in visible.split(",")] if visible else []
    if shown:
        name = shown[number] if number < len(shown) else ""
        number = int(name) if name.isdigit() else -1
    used = [each for each in devices if each.number == number or len(devices) == 1]
    if not used:
        raise CollectorUnavailable("nvml", f"CUDA_VISIBLE_DEVICES={visible} tells no number of it")
    for each in used:
        each.label = asked
    return used


class NvmlCollector:
    """Samples every series of every device from its own thread while a block runs."""

    name = "nvml"
    level = Level.SYSTEM

    def __init__(self, devices: Sequence["Device"], rate_hz: float) -> None:
        self._devices, self._period_s = devices, 1 / rate_hz
        self._samples: list[Sample] = []
        self._dropped = 0
        self._sweeps_ns: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to sample."""
        self._samples, self._dropped, self._sweeps_ns = [], 0, []
        self._stop.clear()
        self._thread = threading.Thread(target=self._sample, name="nvml", daemon=True)
        self._thread.start()

    def end(self) -> Collected:
        """Stop, and return the samples as spans."""
        thread, self._thread = self._thread, None
        if thread is None:
            return Collected(())
        self._stop.set()
        thread.join()
        notes = [*notes_of(self._samples), *self._cost(), *self._unanswered()]
        number = thread.native_id or 0
        return Collected(tuple(spans_of(self._samples, number)), self._dropped, tuple(notes))

    def close(self) -> None:
        """Stop sampling, if it still goes on."""
        self.end()
        for device in self._devices:
            device.close()

    def _sample(self) -> None:
        for device in self._devices:
            device.begin()
        while True:
            began = now_ns()
            for device in self._devices:
                self._keep(list(device.sweep()))
            self._sweeps_ns.append(now_ns() - began)
            if self._stop.wait(self._period_s):
                return

    def _keep(self, samples: list[Sample]) -> None:
        if len(self._samples) + len(samples) > MOST_SAMPLES:
            self._dropped += len(samples)
        else:
            self._samples.extend(samples)

    def _cost(self) -> list[str]:
        """Say what sampling took, where it is worth a reader's attention."""
        spent, period = sum(self._sweeps_ns), self._period_s * 1e9
        if spent <= 0.05 * period * len(self._sweeps_ns):
            return []
        mean_ms = spent / len(self._sweeps_ns) / 1e6
        return [f"a sweep of NVML took {mean_ms:.1f} ms on a thread beside the run"]

    def _unanswered(self) -> list[str]:
        """Say what the driver did not answer that it answered before: the GPU may be gone."""
        asked = sum(device.asked for device in self._devices)
        answered = asked - sum(device.refused for device in self._devices)
        return [f"the GPU answered {answered} of {asked} reads"] if answered < asked else []


class Device:
    """One GPU: the series that it answers, found by asking each once."""

    def __init__(self, library: Any, number: int) -> None:
        self.number = number
        #: its number in samples: the framework's, beside which kernels are counted
        self.label = number
        handle = library.nvmlDeviceGetHandleByIndex(number)
        self._error: type[Exception] = library.NVMLError
        self._gpm = gpm_of(library, handle)
        #: reads since it began, and those of them that failed
        self.asked = self.refused = 0

        def energy_j() -> float:
            return float(library.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000

        #: its joules since the driver was loaded (Volta and later); None where it does not say
        self.energy_j: Read | None = energy_j if self._answers(energy_j) else None
        self._reads = {
            name: read for name, read in _reads(library, handle).items() if self._answers(read)
        }

    def begin(self) -> None:
        """Begin a block: nothing of before it is of its figures."""
        self.asked = self.refused = 0
        if self._gpm is not None:
            self._asked(self._gpm.begin)

    def sweep(self) -> Iterator[Sample]:
        """Yield one value of each series; what is not answered is counted."""
        for series, read in self._reads.items():
            at_ns = now_ns()
            value = self._asked(read)
            if value is not None:
                yield Sample(at_ns, self.label, series, value)
        if self._gpm is not None:
            at_ns = now_ns()
            for series, value in (self._asked(self._gpm.read) or {}).items():
                yield Sample(at_ns, self.label, series, value)

    def close(self) -> None:
        """Free what it holds."""
        if self._gpm is not None:
            self._gpm.close()

    def _asked(self, read: Callable[[], _Answer]) -> _Answer | None:
        self.asked += 1
        try:
            return read()
        except self._error:
            self.refused += 1
            return None

    def _answers(self, read: Read) -> bool:
        try:
            read()
        except self._error:
            return False
        return True


def _reads(library: Any, handle: Any) -> Mapping[str, Read]:
    """Return what reads each series; energy, at 4 ms a call, is the collector energy's."""
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
