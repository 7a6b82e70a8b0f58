"""GPM of NVML (Hopper and later): utilisation of multiprocessors and memory between two samples."""

from collections.abc import Mapping
from typing import Any

from mlscope.tracing.clock import now_ns

MIN_INTERVAL_NS = 100_000_000
"""Between two samples of GPM, whose counters are not updated more often."""


class Gpm:
    """Figures of GPM for the time between two samples, of the whole device."""

    def __init__(self, library: Any, handle: Any, series: Mapping[str, int]) -> None:
        """Begin an interval on the device of a `handle` of NVML, the `library`.

        `series`: the numbers of GPM's metrics, by the names of their series. Raises NVMLError.
        """
        self._library, self._handle, self._series = library, handle, series
        self._last: Any = None
        self._last_ns = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new interval. Raises NVMLError."""
        self.close()
        self._last, self._last_ns = self._take_sample(), now_ns()

    def read(self) -> Mapping[str, float]:
        """Return the figures since the last ones; none where there is nothing new.

        The chip updates its counters about ten times a second: for two samples without an update in
        between, NVML returns 0, and an error for the memory. Raises NVMLError.
        """
        at_ns = now_ns()
        if at_ns - self._last_ns < MIN_INTERVAL_NS:
            return {}
        if self._last is None:
            self.begin()
            return {}
        sample = self._take_sample()
        try:
            figures = self._figures_between(self._last, sample)
        except self._library.NVMLError:
            figures = {}
        if len(figures) < len(self._series) and not any(figures.values()):
            self._library.nvmlGpmSampleFree(sample)
            return {}
        self._library.nvmlGpmSampleFree(self._last)
        self._last, self._last_ns = sample, at_ns
        return figures

    def close(self) -> None:
        """Free the last sample."""
        last, self._last = self._last, None
        if last is not None:
            self._library.nvmlGpmSampleFree(last)

    def _figures_between(self, first: Any, second: Any) -> dict[str, float]:
        request = self._library.c_nvmlGpmMetricsGet_t()
        request.version = self._library.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics, request.sample1, request.sample2 = len(self._series), first, second
        for place, number in enumerate(self._series.values()):
            request.metrics[place].metricId = number
        self._library.nvmlGpmMetricsGet(request)
        return {
            name: float(request.metrics[place].value)
            for place, name in enumerate(self._series)
            if request.metrics[place].nvmlReturn == 0
        }

    def _take_sample(self) -> Any:
        sample = self._library.nvmlGpmSampleAlloc()
        try:
            self._library.nvmlGpmSampleGet(self._handle, sample)
        except self._library.NVMLError:
            self._library.nvmlGpmSampleFree(sample)
            raise
        return sample


def gpm_of(library: Any, handle: Any) -> Gpm | None:
    """Return the reader of a device's GPM; None where the device has none."""
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
