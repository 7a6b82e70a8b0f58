"""Devices' roofs as an agent has them: measured once a device, kept on disk, told to workers.

Before the worker of the first order that asks for layers is started or told of it, so while the
agent measures no run; a process of its own, which is gone before the order is done. One at a time
on a host, whichever agent wants it: beside each other they would measure each other.
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
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.datasheets import beside, cpu_datasheet, gpu_datasheet
from services.agent.gpu_arithmetic import library_here
from services.agent.host_roof import FEW_BITS
from services.agent.machine import nvidia_accelerators, package_version, this_machine
from services.agent.process import worker_environment

FOLDER = "roofs"
"""Of the data folder: what is kept."""
TIMEOUT_S = 90.0
PATIENCE_S = 240.0
"""Another agent's turn is waited for as long."""
NOT_YET = "not measured yet"
_LOOK_S = 0.1
_MOST_REASON = 200
_FEW_BITS = re.compile(r"bfloat16|float16|bf16|fp16|half|quant|(?<!u)int8")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Measured:
    """A device and what its roof was measured with: other words, another measurement."""

    kind: str
    #: its UUID, else its name
    device: str
    name: str
    driver: str = ""
    library: str = ""
    #: cores that the agent may use
    cores: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file that keeps it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


NOTHING_KNOWN: Mapping[Measured, Roof] = MappingProxyType({})


@dataclass(slots=True)
class Roofs:
    """The roofs of an agent's devices: kept in `folder`, or where that can't be in memory."""

    folder: Path
    lock: Path = field(
        default_factory=lambda: Path(tempfile.gettempdir(), f"mlscope-roof-{os.getuid()}.lock")
    )
    #: what was measured since it was last told of
    has_news: bool = False
    #: those of this start of the agent, the failures among them
    known: dict[Measured, Roof] = field(default_factory=dict)

    async def of(self, order: WorkOrder) -> Roof:
        """Return the roof of an order's device, measured if need be; none unless it has layers."""
        levels = (run.level for run in order.session.runs if run.run in order.runs)
        if max(levels, default=Level.NONE) < Level.FRAMEWORK:
            return NO_ROOF
        return await self.of_device(order.subject.device, few_bits=names_few_bits(order.subject))

    async def of_device(self, device: str, *, few_bits: bool = False) -> Roof:
        """Return the roof of a device as a request names it: cpu, gpu, cuda:1.

        Of a host with or without precisions below 32 bits, which take longer.
        """
        if device == "cpu":
            machine = await asyncio.to_thread(this_machine)
            told, command = the_host(machine), ["services.agent.host_roof"]
            more = the_host(machine, few_bits=True)
            if few_bits or more in self.known or kept_in(self.folder, more):
                told, command = more, [*command, FEW_BITS]
        elif "gpu" in device.lower() or "cuda" in device.lower():
            number = number_of(device)
            told = await asyncio.to_thread(the_gpu, number)
            command = ["services.agent.gpu_roof", str(number)]
        else:
            return NO_ROOF
        found = self.known.get(told) or kept_in(self.folder, told)
        if found is None:
            found = await self._measured(told, command)
            self.has_news = self.has_news or not found.note
        self.known[told] = found
        return with_datasheet(told, found)

    def announced(self, said: Announcement) -> Announcement:
        """Return an announcement with the roofs that are known of its devices."""
        self.has_news = False
        hardware = with_roofs(said.hardware, self.folder, self.known)
        return said.model_copy(update={"hardware": hardware})

    async def _measured(self, told: Measured, command: Sequence[str]) -> Roof:
        try:
            async with _alone(self.lock):
                # Whoever was before may have measured the same.
                found = kept_in(self.folder, told) or await measured_apart(told, command)
        except TimeoutError:
            return _without(told, f"others measured for {PATIENCE_S:g} s")
        if not found.note and not found.is_disturbed:
            keep_in(self.folder, told, found)
        return found


def names_few_bits(subject: Subject) -> bool:
    """Say whether a model's manifest or options name a precision below 32 bits."""
    named = subject.model.model_dump_json(), json.dumps(dict(subject.options), default=str)
    return _FEW_BITS.search(" ".join(named).lower()) is not None


def the_host(machine: Hardware, *, few_bits: bool = False) -> Measured:
    """Return this host's CPU, as this process may use it."""
    name = machine.cpu_model or machine.architecture
    versions = ((name, package_version(name)) for name in ("numpy", "torch"))
    libraries = [f"{name} {version}" for name, version in versions if version]
    more = [FEW_BITS] if few_bits else []
    library = ", ".join([*libraries, f"{machine.cores} threads", *more])
    return Measured("cpu", name, name, library=library, cores=_usable())


def the_gpu(number: int) -> Measured:
    """Return the GPU that CUDA numbers so in this environment, as NVML knows it."""
    library = library_here()
    found = _numbered(list(nvidia_accelerators()), number, os.environ.get(_VISIBLE, ""))
    if found is None:
        return Measured("gpu", f"number {number}", "", library=library)
    return _of(found, library)


def with_roofs(
    hardware: Hardware, folder: Path, known: Mapping[Measured, Roof] = NOTHING_KNOWN
) -> Hardware:
    """Return a machine with the roofs of its devices, as known or kept, their datasheets beside."""
    told = the_host(hardware)
    each_host = (the_host(hardware, few_bits=True), told)
    found = next((f for h in each_host if (f := known.get(h) or kept_in(folder, h))), Roof("cpu"))
    peaks, bandwidth = with_datasheet(told, found).whole()
    library = library_here()
    accelerators = [(each, _of(each, library)) for each in hardware.accelerators]
    return hardware.model_copy(
        update={
            "peak_flops": peaks,
            "memory_bandwidth": bandwidth,
            "accelerators": tuple(
                _roofed(each, gpu, known.get(gpu) or kept_in(folder, gpu))
                for each, gpu in accelerators
            ),
        }
    )


def _roofed(accelerator: Accelerator, told: Measured, found: Roof | None) -> Accelerator:
    found = found or Roof("gpu", note=NOT_YET)
    peaks, bandwidth = with_datasheet(told, found).whole()
    lacking = [f"{name}: {reason}" for name, reason in found.lacking.items()]
    note = "; ".join(filter(None, (found.note, *lacking)))
    roofs = {"peak_flops": peaks, "memory_bandwidth": bandwidth, "roof_note": note}
    return accelerator.model_copy(update=roofs)


def with_datasheet(told: Measured, found: Roof) -> Roof:
    """Return a roof with its device's datasheet beside."""
    if told.kind == "cpu":
        return beside(found, cpu_datasheet(told.name, told.cores))
    sheet = gpu_datasheet(found.device or told.name)
    # Of what could not be measured its datasheet still tells.
    return beside(found if found.kind else Roof("gpu", told.name, note=found.note), sheet)


def kept_in(folder: Path, told: Measured) -> Roof | None:
    """Return what a folder keeps of a device; None for nothing, and for a torn file."""
    with suppress(OSError, KeyError, ValueError, TypeError, AttributeError):
        return Roof.of(json.loads((folder / told.file).read_text())["roof"])
    return None


def keep_in(folder: Path, told: Measured, found: Roof) -> None:
    """Keep a roof; where that can't be, it is measured again at the agent's next start."""
    body = json.dumps({"of": asdict(told), "roof": found.words()}, indent=1)
    part = folder / f"{told.file}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(body)
        part.replace(folder / told.file)


async def measured_apart(told: Measured, command: Sequence[str]) -> Roof:
    """Return what a module measures in a process of its own; of one that fails, a note."""
    # Otherwise JAX takes three quarters of a GPU's memory, whether it is free or not.
    environment = worker_environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        return _without(told, str(error))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            written, complaint = await process.communicate()
    except TimeoutError:
        return _without(told, f"not done in {TIMEOUT_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        return _without(told, lines[-1] if lines else f"ended with {process.returncode}")
    try:
        return Roof.of(json.loads(written))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        return _without(told, f"unreadable: {error}")


def number_of(device: str) -> int:
    """Return the number in a device's name, as 1 of cuda:1; 0 where it has none."""
    _, _, number = device.partition(":")
    return int(number) if number.isdecimal() else 0


def _numbered(found: list[Accelerator], number: int, visible: str) -> Accelerator | None:
    """Return the GPU of a number among those that `visible` (CUDA_VISIBLE_DEVICES) lets be seen."""
    shown = [each.strip() for each in visible.split(",")] if visible else []
    name = str(number) if not shown else shown[number] if number < len(shown) else ""
    if name.isdecimal():
        return found[int(name)] if int(name) < len(found) else None
    return next((each for each in found if name and each.uuid.startswith(name)), None)


def _of(accelerator: Accelerator, library: str) -> Measured:
    device = accelerator.uuid or accelerator.name
    return Measured("gpu", device, accelerator.name, accelerator.driver, library)


def _usable() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _without(told: Measured, reason: str) -> Roof:
    what = "the host's roof" if told.kind == "cpu" else "the GPU's roof"
    return Roof(told.kind, told.name, note=f"{what} could not be measured: {reason[:_MOST_REASON]}")


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[None]:
    """Hold the host's lock; where there can be none, go on without. Raises TimeoutError."""
    descriptor: int | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (descriptor := try_lock(path, "exclusive", make=True)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
