"""Roofs of the devices that bundles were measured on.

A run's own, as its agent told it; else one measured beside (`benchmarks.gpu_roofs --words FILE`),
where that is of a GPU of the same name; else the GPU's datasheet; else none.
"""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.survey.bundles import frames_of
from cli.offline.bundle import read
from schemas.agent import Announcement
from services.agent.host.roofs.devices import gpu_number
from services.agent.machine.datasheets import gpu_datasheet, with_datasheet_figures
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.analyzer.building.roofs.ceilings import ceilings_of
from services.analyzer.frames.evaluation import Frames, Run

FILE = "roof.json"
"""In a survey's folder: a roof measured beside."""


def kept_roof(path: Path) -> Roof:
    """Return the roof that a file keeps; none where there is no file. Raises ValueError, KeyError.

    The file is of `benchmarks.gpu_roofs --words FILE`.
    """
    return Roof.from_dict(json.loads(path.read_text())) if path.exists() else NO_ROOF


def roofed_frames(path: Path, roof: Roof = NO_ROOF) -> Frames:
    """Return a bundle's frames, runs on a GPU that were told no roof with what is known of it.

    Raises BundleBroken.
    """
    frames = frames_of(path)
    announcement = read(path).announcement
    runs = tuple(roofed_run(run, announcement, roof) for run in frames.measured)
    return replace(frames, measured=runs, attempts=tuple(run.row for run in runs))


def gpu_name(announcement: Announcement, device: str) -> str:
    """Return the name of the GPU that a subject's device stands for; '' where nobody told it."""
    accelerators = announcement.hardware.accelerators
    number = gpu_number(device)
    return accelerators[number].name if number < len(accelerators) else ""


def roofed_run(run: Run, announcement: Announcement, fallback: Roof) -> Run:
    """Return a run on a GPU with the GPU's ceilings, if it was told none.

    They are those of `fallback` if it is of the GPU that the `announcement` names, with the
    datasheet's figures.
    """
    conditions = run.row.conditions
    if ceilings_of(run.row).kind or conditions.get("device", "cpu") == "cpu":
        return run
    name = gpu_name(announcement, run.row.device)
    roof = fallback if name and fallback.device == name else Roof("gpu", name)
    picked = with_datasheet_figures(roof, gpu_datasheet(name)).for_run(
        str(conditions["precision"]), conditions["threads"]
    )
    ceilings = {key: ceiling.model_dump() for key, ceiling in picked.ceilings.items()}
    return replace(run, row=replace(run.row, conditions={**conditions, **ceilings}))
