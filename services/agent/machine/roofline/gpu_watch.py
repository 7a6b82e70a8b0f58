"""What a GPU does while its roof is measured, by NVML: use by others, slowed clocks, conditions.

NVML does not name who uses a GPU across containers. So use by others is read before the first own
work and after the last; what begins and ends in between shows in the spread of the tries.
"""

import threading
import time
from statistics import median
from types import MappingProxyType, TracebackType
from typing import Any, Self

from services.agent.machine.nvml import nvml_and_device
from services.agent.machine.roofline.ceilings import MOST_OTHERS

SLOWDOWNS = MappingProxyType(
    {
        0x08: "hardware slowdown",
        0x20: "thermal slowdown by software",
        0x40: "thermal slowdown by hardware",
        0x80: "power brake",
    }
)
"""NVML's reasons for lower clocks that pass; the power cap (0x4) bounds the device at all times.

NVML API reference, "NvmlClocksEventReasons".
"""
_POWER_CAP = 0x04
_POLL_S = 0.05
_USE_READINGS = 5
_USE_PERIOD_S = 0.2
"""NVML averages use over 1/6 to 1 second, depending on the GPU."""


class GpuWatch:
    """Reads a GPU's state in a thread, from `with` to its end; without NVML it knows nothing."""

    def __init__(self, uuid: str) -> None:
        self._nvml, self._device = nvml_and_device(
            lambda nvml: nvml.nvmlDeviceGetHandleByUUID(uuid)
        )
        #: share of the GPU's time that others used before, or after if more; None unknown
        self.others = use_of(self._nvml, self._device)
        self._reasons = 0
        self._state: dict[str, int] = {}
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Self:
        if self._nvml is not None:
            # At least once, however late the thread begins on a busy machine.
            self._has_read()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_ended.set()
        if self._nvml is not None:
            self._thread.join()
            self._nvml.nvmlShutdown()

    def read_use_again(self) -> None:
        """Read what others use, now that own work has ended.

        The tries of a roof can't tell a process that began to work among them: it slows them all
        alike, as on an H200, where the spread stayed below 13%.
        """
        uses = [share for share in (self.others, use_of(self._nvml, self._device)) if share]
        self.others = max(uses, default=self.others)

    @property
    def slowdowns(self) -> list[str]:
        """Why the GPU lowered its clocks, where that passes."""
        return [name for bit, name in SLOWDOWNS.items() if self._reasons & bit]

    @property
    def conditions(self) -> dict[str, Any]:
        """The highest clock, temperature and power that were read, and what held the clock down."""
        conditions: dict[str, Any] = {"others": self.others, **self._state}
        if self._nvml is not None:
            conditions["is_power_capped"] = bool(self._reasons & _POWER_CAP)
        return conditions | ({"slowdowns": self.slowdowns} if self.slowdowns else {})

    def _poll(self) -> None:
        while self._has_read() and not self._is_ended.wait(_POLL_S):
            pass

    def _has_read(self) -> bool:
        nvml, device = self._nvml, self._device
        try:
            # Newer bindings have two names; old drivers know only this one.
            reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
            figures = {
                "most_sm_clock_mhz": int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
                "most_celsius": int(
                    nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
                ),
                "most_power_w": int(nvml.nvmlDeviceGetPowerUsage(device)) // 1000,
            }
        except nvml.NVMLError:
            return False
        self._reasons |= reasons
        self._state = {
            name: max(figure, self._state.get(name, 0)) for name, figure in figures.items()
        }
        return True


def gpu_is_quiet(uuid: str) -> bool:
    """Return whether nobody uses a GPU and nothing slows its clocks; True where that is unknown."""
    with GpuWatch(uuid) as watch:
        time.sleep(2 * _POLL_S)
    return (watch.others or 0.0) <= MOST_OTHERS and not watch.slowdowns


def use_of(nvml: Any, device: Any) -> float | None:
    """Return the share of its time that a GPU is used, over a second; None unknown.

    The median of some readings: work of ours that ended just before is still in the first.
    """
    if nvml is None:
        return None
    shares = []
    try:
        for _ in range(_USE_READINGS):
            time.sleep(_USE_PERIOD_S)
            shares.append(nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100)
    except nvml.NVMLError:  # of a part of a GPU (MIG) it has none
        return None
    return float(median(shares))
