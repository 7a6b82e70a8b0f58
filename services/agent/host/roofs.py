"""The roofs of an agent's devices: measured once a device, kept on disk, sent to workers.

A roof is measured before the worker of the first order that asks for layers is started or told of
the order, so while the agent measures no run, and in a process of its own, which ends before the
order begins. Agents of one host take turns: at the same time they would measure each other.
"""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

from mlscope.assets.locks import try_lock
from schemas.agent import Accelerator, Announcement, Hardware
from schemas.level import Level
from schemas.plan import Subject, WorkOrder
from services.agent.host.process import worker_environment
from services.agent.machine.datasheets import cpu_datasheet, gpu_datasheet, with_datasheet_figures
from services.agent.machine.hardware import nvidia_accelerators, package_version, this_machine
from services.agent.machine.noise import usable_core_numbers
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.agent.machine.roofline.gpu_arithmetic import installed_gpu_library
from services.agent.machine.roofline.host_roof import LOW_PRECISION_FLAG

FOLDER = "roofs"
"""The folder of kept roofs, below the data folder."""
TIMEOUT_S = 90.0
LOCK_TIMEOUT_S = 240.0
"""How long another agent's measurement is waited for."""
NOT_YET = "not measured yet"
_POLL_S = 0.1
_MOST_REASON_CHARACTERS = 200
_LOW_PRECISIONS = re.compile(r"bfloat16|float16|bf16|fp16|half|quant|(?<!u)int8")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_HOST_MODULE = "services.agent.machine.roofline.host_roof"
_GPU_MODULE = "services.agent.machine.roofline.gpu_roof"


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


NO_ROOFS: Mapping[MeasuredDevice, Roof] = MappingProxyType({})


@dataclass(slots=True)
class DeviceRoofs:
    """The roofs of an agent's devices, kept in `folder`; in memory where it can't be written."""

    folder: Path
    lock: Path = field(
        default_factory=lambda: Path(tempfile.gettempdir(), f"mlscope-roof-{os.getuid()}.lock")
    )
    #: whether a roof was measured since the last announcement
    has_news: bool = False
    #: the roofs of this start of the agent, failures included
    roofs: dict[MeasuredDevice, Roof] = field(default_factory=dict)

    async def roof_for_order(self, order: WorkOrder) -> Roof:
        """Return the roof of an order's device, measured if need be; none unless it has layers."""
        levels = (run.level for run in order.session.runs if run.run in order.runs)
        if max(levels, default=Level.NONE) < Level.FRAMEWORK:
            return NO_ROOF
        low_precision = names_low_precision(order.subject)
        return await self.roof_of_device(order.subject.device, low_precision=low_precision)

    async def roof_of_device(self, device: str, *, low_precision: bool = False) -> Roof:
        """Return the roof of a device as a request names it: cpu, gpu, cuda:1.

        `low_precision` asks for precisions below 32 bits of a host, which take longer to measure.
        """
        if device == "cpu":
            machine = await asyncio.to_thread(this_machine)
            measured, command = host_device(machine), [_HOST_MODULE]
            full = host_device(machine, low_precision=True)
            if low_precision or full in self.roofs or load_roof(self.folder, full):
                measured, command = full, [*command, LOW_PRECISION_FLAG]
        elif "gpu" in device.lower() or "cuda" in device.lower():
            number = gpu_number(device)
            measured = await asyncio.to_thread(gpu_device, number)
            command = [_GPU_MODULE, str(number)]
        else:
            return NO_ROOF
        roof = self.roofs.get(measured) or load_roof(self.folder, measured)
        if roof is None:
            roof = await self._measure(measured, command)
            self.has_news |= not roof.note
        self.roofs[measured] = roof
        return with_datasheet(measured, roof)

    def added_to(self, announcement: Announcement) -> Announcement:
        """Return an announcement with the known roofs of its devices."""
        self.has_news = False
        hardware = hardware_with_roofs(announcement.hardware, self.folder, self.roofs)
        return announcement.model_copy(update={"hardware": hardware})

    async def _measure(self, device: MeasuredDevice, command: Sequence[str]) -> Roof:
        """Measure a device with a module's `command`, and keep its roof."""
        try:
            async with _host_lock(self.lock):
                # The agent that held the lock before may have measured the same device.
                roof = load_roof(self.folder, device) or await measure_in_process(device, command)
        except TimeoutError:
            return _failed(device, f"another agent was still measuring after {LOCK_TIMEOUT_S:g} s")
        if not roof.note and not roof.is_disturbed:
            save_roof(self.folder, device, roof)
        return roof


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
    return _measured_gpu(gpu, library)


def hardware_with_roofs(
    hardware: Hardware, folder: Path, roofs: Mapping[MeasuredDevice, Roof] = NO_ROOFS
) -> Hardware:
    """Return a machine, its `hardware`, with the roofs of its devices and their datasheets.

    Roofs are those in `roofs`, else those kept in `folder`.
    """

    def known_roof(device: MeasuredDevice) -> Roof | None:
        return roofs.get(device) or load_roof(folder, device)

    host = host_device(hardware)
    host_roof = known_roof(host_device(hardware, low_precision=True)) or known_roof(host)
    peaks, bandwidth = with_datasheet(host, host_roof or Roof("cpu")).whole_device()
    library = installed_gpu_library()
    accelerators = []
    for accelerator in hardware.accelerators:
        gpu = _measured_gpu(accelerator, library)
        roof = known_roof(gpu) or Roof("gpu", note=NOT_YET)
        gpu_peaks, gpu_bandwidth = with_datasheet(gpu, roof).whole_device()
        missing = [f"{name}: {reason}" for name, reason in roof.missing.items()]
        update = {
            "peak_flops": gpu_peaks,
            "memory_bandwidth": gpu_bandwidth,
            "roof_note": "; ".join(filter(None, (roof.note, *missing))),
        }
        accelerators.append(accelerator.model_copy(update=update))
    return hardware.model_copy(
        update={
            "peak_flops": peaks,
            "memory_bandwidth": bandwidth,
            "accelerators": tuple(accelerators),
        }
    )


def with_datasheet(device: MeasuredDevice, roof: Roof) -> Roof:
    """Return a roof with the figures of its device's datasheet."""
    if device.kind == "cpu":
        return with_datasheet_figures(roof, cpu_datasheet(device.name, device.cores))
    sheet = gpu_datasheet(roof.device or device.name)
    # The datasheet also has figures of a GPU that could not be measured.
    return with_datasheet_figures(
        roof if roof.kind else Roof("gpu", device.name, note=roof.note), sheet
    )


def load_roof(folder: Path, device: MeasuredDevice) -> Roof | None:
    """Return the roof that a folder keeps of a device; None where it has none, or a torn file."""
    with suppress(OSError, KeyError, ValueError, TypeError):
        return Roof.from_dict(json.loads((folder / device.file).read_text())["roof"])
    return None


def save_roof(folder: Path, device: MeasuredDevice, roof: Roof) -> None:
    """Keep a device's roof in a folder; where that fails, the agent's next start measures it."""
    body = json.dumps({"of": asdict(device), "roof": roof.to_dict()}, indent=1)
    part = folder / f"{device.file}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(body)
        part.replace(folder / device.file)


async def measure_in_process(device: MeasuredDevice, command: Sequence[str]) -> Roof:
    """Return the roof that a module measures in a process of its own; with a note if it fails."""
    # Without this, JAX reserves three quarters of a GPU's memory, free or not.
    environment = worker_environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        return _failed(device, str(error))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, errors = await process.communicate()
    except TimeoutError:
        return _failed(device, f"not finished within {TIMEOUT_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        return _failed(device, lines[-1] if lines else f"ended with {process.returncode}")
    try:
        return Roof.from_dict(json.loads(output))
    except (KeyError, ValueError, TypeError) as error:
        return _failed(device, f"unreadable: {error}")


def gpu_number(device: str) -> int:
    """Return the number in a device's name, as 1 of cuda:1; 0 where it has none."""
    _, _, number = device.partition(":")
    return int(number) if number.isdecimal() else 0


def _measured_gpu(accelerator: Accelerator, library: str) -> MeasuredDevice:
    device = accelerator.uuid or accelerator.name
    return MeasuredDevice("gpu", device, accelerator.name, accelerator.driver, library)


def _failed(device: MeasuredDevice, reason: str) -> Roof:
    subject = "the host's roof" if device.kind == "cpu" else "the GPU's roof"
    note = f"{subject} could not be measured: {reason[:_MOST_REASON_CHARACTERS]}"
    return Roof(device.kind, device.name, note=note)


@asynccontextmanager
async def _host_lock(path: Path) -> AsyncIterator[None]:
    """Hold the host's lock; go on without where it can't be created. Raises TimeoutError."""
    descriptor: int | None = None
    try:
        async with asyncio.timeout(LOCK_TIMEOUT_S):
            while (descriptor := try_lock(path, "exclusive", make=True)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
