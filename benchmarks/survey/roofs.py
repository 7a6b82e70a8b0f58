"""Roofs of the devices that bundles were measured on.

A run's own, as its agent told it; else one measured beside (`benchmarks.gpu_roofs --words FILE`),
where that is of a GPU of the same name; else the GPU's datasheet; else none.
"""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.survey.bundles import frames_of
from cli.commands.bundle import read
from schemas.agent import Announcement
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.datasheets import beside, gpu_datasheet
from services.agent.roofs import number_of
from services.analyzer.ceilings import ceilings_of
from services.analyzer.frames import Frames, Run

FILE = "roof.json"
"""In a survey's folder: a roof measured beside."""


def kept_roof(path: Path) -> Roof:
    """Return the roof that a file keeps; none where there is no file. Raises ValueError, KeyError.

    The file is of `benchmarks.gpu_roofs --words FILE`.
    """
    return Roof.of(json.loads(path.read_text())) if path.exists() else NO_ROOF


def roofed_frames(path: Path, kept: Roof = NO_ROOF) -> Frames:
    """Return a bundle's frames, runs on a GPU that were told no roof with what is known of it.

    Raises BundleBroken.
    """
    frames = frames_of(path)
    said = read(path).announcement
    runs = tuple(_roofed(run, said, kept) for run in frames.measured)
    return replace(frames, measured=runs, attempts=tuple(run.row for run in runs))


def gpu_name(said: Announcement, device: str) -> str:
    """Return the name of the GPU that a subject's device stands for; '' where nobody told it."""
    found = said.hardware.accelerators
    number = number_of(device)
    return found[number].name if number < len(found) else ""


def _roofed(run: Run, said: Announcement, kept: Roof) -> Run:
    known = run.row.conditions
    if ceilings_of(run.row).kind or known.get("device", "cpu") == "cpu":
        return run
    name = gpu_name(said, run.row.device)
    roof = kept if name and kept.device == name else Roof("gpu", name)
    picked = beside(roof, gpu_datasheet(name)).of_run(str(known["precision"]), known["threads"])
    told = {key: each.model_dump() for key, each in picked.ceilings.items()}
    return replace(run, row=replace(run.row, conditions={**known, **told}))
