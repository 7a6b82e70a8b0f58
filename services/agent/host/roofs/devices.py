"""The devices of a machine whose roofs are measured, and with which libraries."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass

from schemas.agent import Accelerator, Hardware
from schemas.plan import Subject
from services.agent.machine.accelerators import nvidia_accelerators
from services.agent.machine.hardware import package_version
from services.agent.machine.noise import usable_core_numbers
from services.agent.machine.roofline.gpu_arithmetic import installed_gpu_library
from services.agent.machine.roofline.host_roof import LOW_PRECISION_FLAG

_LOW_PRECISIONS = re.compile(r"bfloat16|float16|bf16|fp16|half|quant|(?<!u)int8")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """A device and what its roof is measured with: where a field differs, it is measured again."""

    #: cpu or gpu
    kind: str
    #: its UUID, else its name
    device: str
    name: str
    driver: str = ""
    library: str = ""
    #: numbers of the cores that the agent may use
    cores: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file that keeps its roof."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def names_low_precision(subject: Subject) -> bool:
    """Return whether a model's manifest or options name a precision below 32 bits."""
    texts = subject.model.model_dump_json(), json.dumps(dict(subject.options), default=str)
    return _LOW_PRECISIONS.search(" ".join(texts).lower()) is not None


def host_device(machine: Hardware, *, low_precision: bool = False) -> MeasuredDevice:
    """Return this host's CPU, as this process may use it."""
    name = machine.cpu_model or machine.architecture
    versions = ((name, package_version(name)) for name in ("numpy", "torch"))
    libraries = [f"{name} {version}" for name, version in versions if version]
    flags = [LOW_PRECISION_FLAG] if low_precision else []
    library = ", ".join([*libraries, f"{machine.cores} threads", *flags])
    cores = tuple(sorted(usable_core_numbers()))
    return MeasuredDevice("cpu", name, name, library=library, cores=cores)


def gpu_device(number: int) -> MeasuredDevice:
    """Return the GPU that CUDA gives this number in this environment, as NVML describes it."""
    library, gpus = installed_gpu_library(), list(nvidia_accelerators())
    name = str(number)
    if visible := os.environ.get(_VISIBLE, ""):
        # CUDA numbers the visible GPUs alone; a name is NVML's number or the start of a UUID.
        name = dict(enumerate(visible.split(","))).get(number, "").strip()
    if name.isdecimal():
        gpu = gpus[int(name)] if int(name) < len(gpus) else None
    else:
        gpu = next((gpu for gpu in gpus if name and gpu.uuid.startswith(name)), None)
    if gpu is None:
        return MeasuredDevice("gpu", f"number {number}", "", library=library)
    return accelerator_device(gpu, library)


def accelerator_device(accelerator: Accelerator, library: str) -> MeasuredDevice:
    """Return a GPU that NVML describes, measured with a `library`."""
    device = accelerator.uuid or accelerator.name
    return MeasuredDevice("gpu", device, accelerator.name, accelerator.driver, library)


def gpu_number(device: str) -> int:
    """Return the number in a device's name, as 1 of cuda:1; 0 where it has none."""
    _, _, number = device.partition(":")
    return int(number) if number.isdecimal() else 0
