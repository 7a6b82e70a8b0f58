"""What CUDA's driver says of a GPU, by cuda-python; asked without making a context."""

from importlib import import_module
from typing import Any, TypedDict


class CudaFacts(TypedDict, total=False):
    """Fields of `schemas.agent.Accelerator`."""

    compute_capability: str
    multiprocessors: int
    l2_bytes: int


def cuda_facts(bus_id: str) -> CudaFacts:
    """Return the facts of the GPU at a PCI address; none without cuda-python or a driver.

    CUDA numbers devices otherwise than NVML does: the address is what both know.
    """
    try:
        cuda: Any = import_module("cuda.bindings.driver")
        _done(cuda, cuda.cuInit(0))
        device = _done(cuda, cuda.cuDeviceGetByPCIBusId(bus_id.encode()))
        attributes = cuda.CUdevice_attribute
        major, minor, processors, l2_bytes = (
            int(_done(cuda, cuda.cuDeviceGetAttribute(attribute, device)))
            for attribute in (
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
            )
        )
    except (ImportError, RuntimeError):  # cuda-python without a driver raises the latter
        return {}
    return {
        "compute_capability": f"{major}.{minor}",
        "multiprocessors": processors,
        "l2_bytes": l2_bytes,
    }


def _done(cuda: Any, answer: Any) -> Any:
    """Return what a call gave. Raises RuntimeError where its status is no success."""
    status, *given = answer
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(status))
    return given[0] if given else None
