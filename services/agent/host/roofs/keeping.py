"""The roofs of an agent's devices: the best of a few starts, kept on disk, sent to workers.

A roof is measured before the worker of the first order that asks for layers is started or told of
the order, so while the agent measures no run, and in a process of its own, which ends before the
order begins. Agents of one host take turns: at the same time they would measure each other. Later
starts measure it again, up to a few times (`roofline.measurements`), if the device is quiet.

What others disturbed serves the orders that wait for it, with a caveat, and is not kept: the next
order on a quiet device measures again.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time_ns

from mlscope.assets.locks import try_lock
from schemas.agent import Announcement
from schemas.level import Level
from schemas.plan import WorkOrder
from services.agent.host.roofs.devices import (
    MeasuredDevice,
    gpu_device,
    gpu_number,
    host_device,
    names_low_precision,
)
from services.agent.host.roofs.process import device_is_quiet, failed_roof, measure_in_process
from services.agent.host.roofs.stored import (
    NOTHING_KEPT,
    hardware_with_roofs,
    known_host,
    load_kept,
    save_kept,
    with_datasheet,
)
from services.agent.machine.hardware import this_machine
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.agent.machine.roofline.host_roof import LOW_PRECISION_FLAG
from services.agent.machine.roofline.measurements import KeptRoof

LOCK_TIMEOUT_S = 240.0
"""How long another agent's measurement is waited for."""
PAUSE_S = 60.0
"""How much longer each disturbed measurement in a row makes the wait for the next, after the
second: a device that looks quiet and is not would else cost every order seconds."""
_POLL_S = 0.1
_HOST_MODULE = "services.agent.machine.roofline.host_roof"
_GPU_MODULE = "services.agent.machine.roofline.gpu_roof"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A measurement of this start of the agent: its result, and when it may be repeated."""

    roof: Roof
    #: disturbed measurements in a row
    disturbed: int = 0
    #: CLOCK_MONOTONIC
    ended_s: float = 0.0

    def may_be_repeated(self, now_s: float) -> bool:
        """Return whether it was disturbed, and long enough ago at `now_s`."""
        pause_s = PAUSE_S * (self.disturbed - 1)
        return self.roof.is_disturbed and now_s - self.ended_s >= pause_s


@dataclass(slots=True)
class DeviceRoofs:
    """The roofs of an agent's devices, kept in `folder`; in memory where it can't be written."""

    folder: Path
    lock: Path = field(
        default_factory=lambda: Path(tempfile.gettempdir(), f"mlscope-roof-{os.getuid()}.lock")
    )
    #: whether what is known changed since the last announcement
    has_news: bool = False
    #: the measurements of this start of the agent
    attempts: dict[MeasuredDevice, Attempt] = field(default_factory=dict)
    _stored: dict[MeasuredDevice, KeptRoof] = field(default_factory=dict)
    _announced: dict[MeasuredDevice, KeptRoof] = field(default_factory=dict)

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
            host, command = host_device(machine), [_HOST_MODULE]
            full = host_device(machine, low_precision=True)
            if low_precision or full in self.attempts or self.stored_roof(full).measurements:
                host, command = full, [*command, LOW_PRECISION_FLAG]
            await self._measure_if_due(host, command)
            return self._roof_of(host, known_host(machine, self.stored_roof))
        if "gpu" not in device.lower() and "cuda" not in device.lower():
            return NO_ROOF
        number = gpu_number(device)
        gpu = await asyncio.to_thread(gpu_device, number)
        await self._measure_if_due(gpu, [_GPU_MODULE, str(number), gpu.device])
        return self._roof_of(gpu, self.stored_roof(gpu))

    def stored_roof(self, device: MeasuredDevice) -> KeptRoof:
        """Return the measurements of a device in the folder, or in memory where those are more."""
        return max(
            load_kept(self.folder, device),
            self._stored.get(device, NOTHING_KEPT),
            key=lambda roof: (len(roof.measurements), roof != NOTHING_KEPT),
        )

    def added_to(self, announcement: Announcement) -> Announcement:
        """Return an announcement with the known roofs of its devices."""

        def announced(device: MeasuredDevice) -> KeptRoof:
            self._announced[device] = self.stored_roof(device)
            return self._announced[device]

        self.has_news = False
        hardware = hardware_with_roofs(announcement.hardware, announced)
        return announcement.model_copy(update={"hardware": hardware})

    def _roof_of(self, device: MeasuredDevice, stored: KeptRoof) -> Roof:
        """Return the roof that is `stored`, else that of the last attempt."""
        own = self.stored_roof(device)
        if self._announced.get(device, NOTHING_KEPT) != own:
            self.has_news, self._announced[device] = True, own
        attempt = self.attempts.get(device)
        roof = stored.roof or (attempt.roof if attempt else Roof(device.kind, note=stored.note))
        return with_datasheet(device, roof)

    async def _measure_if_due(self, device: MeasuredDevice, command: list[str]) -> None:
        """Measure a device that nobody measured; again where that was disturbed, or long ago."""
        attempt, stored = self.attempts.get(device), self.stored_roof(device)
        is_first = attempt is None and not stored.measurements
        if not is_first:
            is_over = attempt is not None and not attempt.may_be_repeated(monotonic())
            if is_over or not stored.is_due(time_ns()) or not await device_is_quiet(device):
                return
        try:
            async with _host_lock(self.lock):
                await self._measure(device, command)
        except TimeoutError:
            reason = f"another agent was still measuring after {LOCK_TIMEOUT_S:g} s"
            self.attempts[device] = Attempt(failed_roof(device, reason))

    async def _measure(self, device: MeasuredDevice, command: list[str]) -> None:
        """Measure a device with a module's `command`, unless another agent just did; keep it."""
        stored = self.stored_roof(device)
        if not stored.is_due(time_ns()):
            return
        roof = await measure_in_process(device, command)
        before = self.attempts.get(device)
        disturbed = (before.disturbed if before else 0) + 1 if roof.is_disturbed else 0
        self.attempts[device] = Attempt(roof, disturbed, monotonic())
        self._stored[device] = stored.with_measurement(roof)
        save_kept(self.folder, device, self._stored[device])


def _is_others(path: Path) -> bool:
    try:
        return path.lstat().st_uid != os.getuid()
    except OSError:
        return False


@asynccontextmanager
async def _host_lock(path: Path) -> AsyncIterator[None]:
    """Hold the host's lock; go on without where it can't be created. Raises TimeoutError.

    Another user, who could hold it for ever, may have made the file: it counts for nobody then.
    """
    descriptor: int | None = None
    try:
        async with asyncio.timeout(LOCK_TIMEOUT_S):
            while not _is_others(path):
                descriptor = try_lock(path, "exclusive", make=True)
                if descriptor is not None:
                    break
                await asyncio.sleep(_POLL_S)
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
