"""Roofs of a machine's devices as a folder keeps them: files, datasheets, and a description.

`hardware_with_roofs` is the one description of them: an agent announces it, `mlscope show` prints
what was announced, and `mlscope doctor` prints it of the same folder.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from schemas.agent import Accelerator, Hardware
from services.agent.host.roofs.devices import MeasuredDevice, accelerator_device, host_device
from services.agent.machine.datasheets import cpu_datasheet, gpu_datasheet, with_datasheet_figures
from services.agent.machine.roofline.ceilings import Roof
from services.agent.machine.roofline.gpu_arithmetic import installed_gpu_library
from services.agent.machine.roofline.measurements import KeptRoof

FOLDER = "roofs"
"""The folder of kept roofs, below the data folder."""
NOT_YET = "not measured yet"
NOTHING_KEPT = KeptRoof(note=NOT_YET)

KnownRoof = Callable[[MeasuredDevice], KeptRoof]
"""Returns what is known of a device."""


def load_kept(folder: Path, device: MeasuredDevice) -> KeptRoof:
    """Return what a folder keeps of a device; nothing where it has no file, or a torn one."""
    with suppress(OSError, KeyError, ValueError, TypeError):
        return KeptRoof.from_dict(json.loads((folder / device.file).read_text()))
    return NOTHING_KEPT


def save_kept(folder: Path, device: MeasuredDevice, roof: KeptRoof) -> None:
    """Write the `roof` of a device to a folder; if that fails, the next start measures it."""
    body = json.dumps({"of": asdict(device), **roof.to_dict()}, indent=1)
    part = folder / f"{device.file}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(body)
        part.replace(folder / device.file)


def known_host(machine: Hardware, stored_roof: KnownRoof) -> KeptRoof:
    """Return the measurements of a host, with those that measured precisions below 32 bits too."""
    plain, full = (
        stored_roof(host_device(machine)),
        stored_roof(host_device(machine, low_precision=True)),
    )
    if not full.measurements:
        return plain if plain.measurements or full == NOTHING_KEPT else full
    return KeptRoof((*plain.measurements, *full.measurements))


def hardware_with_roofs(hardware: Hardware, stored_roof: KnownRoof) -> Hardware:
    """Return a machine, its `hardware`, with the roofs of its devices and their datasheets."""
    host, host_roof = host_device(hardware), known_host(hardware, stored_roof)
    peaks, bandwidth = with_datasheet(host, host_roof.roof or Roof("cpu")).whole_device()
    library = installed_gpu_library()
    accelerators = tuple(
        _accelerator_with_roof(own, library, stored_roof) if own.kind == "gpu" else own
        for own in hardware.accelerators
    )
    update = {
        "peak_flops": peaks,
        "memory_bandwidth": bandwidth,
        "roof_note": host_roof.note,
        "accelerators": accelerators,
    }
    return hardware.model_copy(update=update)


def _accelerator_with_roof(
    accelerator: Accelerator, library: str, stored_roof: KnownRoof
) -> Accelerator:
    gpu = accelerator_device(accelerator, library)
    gpu_roof = stored_roof(gpu)
    roof = gpu_roof.roof or Roof("gpu", note=gpu_roof.note)
    peaks, bandwidth = with_datasheet(gpu, roof).whole_device()
    missing = [f"{name}: {reason}" for name, reason in roof.missing.items()]
    update = {
        "peak_flops": peaks,
        "memory_bandwidth": bandwidth,
        "roof_note": "; ".join(filter(None, (roof.note, *missing))),
    }
    return accelerator.model_copy(update=update)


def with_datasheet(device: MeasuredDevice, roof: Roof) -> Roof:
    """Return a roof with the figures of its device's datasheet."""
    if device.kind == "cpu":
        return with_datasheet_figures(roof, cpu_datasheet(device.name, device.cores))
    sheet = gpu_datasheet(roof.device or device.name)
    # The datasheet also has figures of a GPU that could not be measured.
    return with_datasheet_figures(
        roof if roof.kind else Roof("gpu", device.name, note=roof.note), sheet
    )
