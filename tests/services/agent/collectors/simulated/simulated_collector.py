"""An example of a collector of one's own: a simulator of a device with a time of its own.

A package brings it in with an entry point (see `simulated-1.0.dist-info/entry_points.txt`):

    [mlscope.collectors]
    simulated = simulated_collector

The simulated device counts cycles from 0 at each block; what it did is put on the host's clock
by the pair of readings at the block's begin. Options: `hz` (1e9), cycles a second; `kernels` (2)
a block; `drops`, records said to be lost; `fails_in` (`open`, `begin` or `end`).
"""

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable

KERNEL_CYCLES = 500


def availability() -> Availability:
    """Say that a simulator needs nothing."""
    return Availability((Level.SYSTEM,))


def open_collector(request: CollectorRequest) -> "Simulated":
    """Open the simulated device. Raises CollectorUnavailable when the options say so."""
    if request.options.get("fails_in") == "open":
        raise CollectorUnavailable("simulated", "out of simulated memory")
    return Simulated(request)


class Simulated:
    """Launches as many kernels a block as the options say, one after the other."""

    name = "simulated"
    level = Level.SYSTEM

    def __init__(self, request: CollectorRequest) -> None:
        self._options = request.options
        self._ns_per_cycle = 1e9 / request.options.get("hz", 1e9)
        self._began_ns = 0

    def begin(self) -> None:
        """Read both clocks: the device's is 0 now."""
        self._fail("begin")
        self._began_ns = now_ns()

    def end(self) -> Collected:
        """Return the kernels, each with its launch."""
        self._fail("end")
        spans = []
        for kernel in range(self._options.get("kernels", 2)):
            at_cycle = kernel * KERNEL_CYCLES
            spans += [
                self._span("launch", SpanKind.LAUNCH, kernel, at_cycle, 1),
                self._span("kernel", SpanKind.KERNEL, kernel, at_cycle, KERNEL_CYCLES),
            ]
        return Collected(spans, dropped=self._options.get("drops", 0), notes=("time is simulated",))

    def close(self) -> None:
        """Hold nothing."""

    def _span(
        self, name: str, kind: SpanKind, kernel: int, at_cycle: int, cycles: int
    ) -> CollectedSpan:
        return CollectedSpan(
            Level.SYSTEM,
            f"simulated.{name}",
            self._began_ns + round(at_cycle * self._ns_per_cycle),
            round(cycles * self._ns_per_cycle),
            thread=7,
            kind=kind,
            correlation=kernel,
            attributes={"device": 0, "cycles": cycles},
        )

    def _fail(self, where: str) -> None:
        if self._options.get("fails_in") == where:
            raise ArithmeticError(f"cycle overflow in {where}")
