"""Attributes of a GPU from CUDA's driver, by cuda-python, without a context on the GPU."""

from importlib import import_module
from typing import Any, TypedDict


class CudaFacts(TypedDict, total=False):
    """Fields of `schemas.agent.Accelerator` that CUDA's driver knows."""

    compute_capability: str
    multiprocessors: int
    l2_bytes: int


def cuda_facts(bus_id: str) -> CudaFacts:
    """Return the attributes of the GPU at a PCI address; none without cuda-python or a driver.

    CUDA and NVML number devices differently: only the address identifies a GPU for both.
    """
    try:
        cuda: Any = import_module("cuda.bindings.driver")
        _checked(cuda, cuda.cuInit(0))
        device = _checked(cuda, cuda.cuDeviceGetByPCIBusId(bus_id.encode()))
        attributes = cuda.CUdevice_attribute
        major, minor, processors, l2_bytes = (
            int(_checked(cuda, cuda.cuDeviceGetAttribute(attribute, device)))
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


def _checked(cuda: Any, answer: Any) -> Any:
    """Return the result of a call. Raises RuntimeError where its status is no success."""
    status, *results = answer
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(status))
    return results[0] if results else None
