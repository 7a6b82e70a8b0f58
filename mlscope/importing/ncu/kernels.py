"""Kernels that Nsight Compute counted, as spans with their counters."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.importing.ncu.flops import flops_of
from mlscope.importing.ncu.metrics import DURATION, OCCUPANCY, READ_BYTES, WRITTEN_BYTES
from mlscope.importing.ncu.report import CountedKernel
from mlscope.tracing.collected import CollectedSpan
from mlscope.tracing.cpp_names import demangled
from schemas.batch import SpanKind
from schemas.level import Level


def spans_of(kernels: Sequence[CountedKernel], began_ns: int) -> Iterator[CollectedSpan]:
    """Yield the kernels in order, laid end to end from `began_ns`: a replay has no start times."""
    at_ns = began_ns
    for kernel in kernels:
        duration_ns = round(kernel.counters.get(DURATION, 0.0))
        yield CollectedSpan(
            level=Level.HARDWARE,
            name=demangled(kernel.name),
            start_ns=at_ns,
            duration_ns=duration_ns,
            thread=kernel.stream,
            kind=SpanKind.KERNEL,
            attributes=attributes_of(kernel),
        )
        at_ns += duration_ns


def attributes_of(kernel: CountedKernel) -> dict[str, Any]:
    """Return a kernel's counters and what follows from them: FLOP, bytes, occupancy (%)."""
    counters = kernel.counters
    attributes: dict[str, Any] = {
        "device": kernel.device,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "layer": kernel.layer,
        "launch_index": kernel.launch_index,
        "counters": dict(counters),
    }
    if (flops := flops_of(counters)) is not None:
        attributes["flops"], attributes["flops_method"] = round(flops.value), flops.method
    for key, name in (("dram_read_bytes", READ_BYTES), ("dram_write_bytes", WRITTEN_BYTES)):
        if name in counters:
            attributes[key] = round(counters[name])
    if OCCUPANCY in counters:
        attributes["occupancy"] = counters[OCCUPANCY]
    return attributes
