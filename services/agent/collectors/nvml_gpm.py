"""GPM of NVML (Hopper and later): use of the multiprocessors and the memory between two samples."""

from collections.abc import Mapping
from typing import Any

from mlscope.tracing.clock import now_ns

LEAST_NS = 100_000_000
"""Between two samples of GPM: its counters are renewed no sooner."""


class Gpm:
    """GPM (Hopper and later): figures of the time between two samples, of the whole device."""

    def __init__(self, library: Any, handle: Any, series: Mapping[str, int]) -> None:
        self._library, self._handle, self._series = library, handle, series
        self._last: Any = None
        self._last_ns = 0
        self.begin()

    def begin(self) -> None:
        """Begin anew: what was before is of no figure. Raises NVMLError."""
        self.close()
        self._last, self._last_ns = self._sampled(), now_ns()

    def read(self) -> Mapping[str, float]:
        """Return each figure since the last ones; none before there is something to tell.

        The chip renews its counters some ten times a second: of two samples between which it did
        not, NVML answers 0 and refuses the memory's. Raises NVMLError.
        """
        at_ns = now_ns()
        if at_ns - self._last_ns < LEAST_NS:
            return {}
        if self._last is None:
            self.begin()
            return {}
        now = self._sampled()
        try:
            found = self._between(self._last, now)
        except self._library.NVMLError:
            found = {}
        if len(found) < len(self._series) and not any(found.values()):
            self._library.nvmlGpmSampleFree(now)
            return {}
        self._library.nvmlGpmSampleFree(self._last)
        self._last, self._last_ns = now, at_ns
        return found

    def close(self) -> None:
        """Free the last sample."""
        last, self._last = self._last, None
        if last is not None:
            self._library.nvmlGpmSampleFree(last)

    def _between(self, last: Any, now: Any) -> dict[str, float]:
        wanted = self._library.c_nvmlGpmMetricsGet_t()
        wanted.version = self._library.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics, wanted.sample1, wanted.sample2 = len(self._series), last, now
        for place, number in enumerate(self._series.values()):
            wanted.metrics[place].metricId = number
        self._library.nvmlGpmMetricsGet(wanted)
        return {
            name: float(wanted.metrics[place].value)
            for place, name in enumerate(self._series)
            if wanted.metrics[place].nvmlReturn == 0
        }

    def _sampled(self) -> Any:
        sample = self._library.nvmlGpmSampleAlloc()
        try:
            self._library.nvmlGpmSampleGet(self._handle, sample)
        except self._library.NVMLError:
            self._library.nvmlGpmSampleFree(sample)
            raise
        return sample


def gpm_of(library: Any, handle: Any) -> Gpm | None:
    """Return what reads a device's GPM; None where it has none."""
    try:
        if not library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        series = {
            "nvml.gpm_sm_utilisation": library.NVML_GPM_METRIC_SM_UTIL,
            "nvml.gpm_sm_occupancy": library.NVML_GPM_METRIC_SM_OCCUPANCY,
            "nvml.gpm_tensor_utilisation": library.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
            "nvml.gpm_dram_bandwidth": library.NVML_GPM_METRIC_DRAM_BW_UTIL,
        }
        return Gpm(library, handle, series)
    except (library.NVMLError, AttributeError):
        return None  # an older driver or package has no GPM
