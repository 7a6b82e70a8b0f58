"""Recordings of an NVIDIA H200 (torch 2.11, CUDA 13, 2026-11-21), as plain values."""

import gzip
import json
from pathlib import Path
from typing import Any

from cli.offline.recordings import RECORDINGS, unpacked

FOLDER = Path(__file__).parent / "recorded"


def recorded_text(name: str) -> str:
    """Return a recording's text."""
    with gzip.open(FOLDER / f"{name}.gz", "rt", encoding="utf-8") as file:
        return file.read()


def recorded(name: str) -> Any:
    """Return a recording in JSON."""
    return json.loads(recorded_text(name))


def bundle_names() -> list[str]:
    """Return the names of the recorded bundles, shipped ones among them, sorted."""
    own = [path.name.partition(".")[0] for path in FOLDER.glob("*.bundle.gz")]
    return sorted([*own, *RECORDINGS])


def recorded_bundle(name: str, folder: Path) -> Path:
    """Return a recorded bundle as a file in a folder."""
    if name in RECORDINGS:
        return unpacked(name, folder)
    path = folder / f"{name}.bundle"
    with gzip.open(FOLDER / f"{name}.bundle.gz") as file:
        path.write_bytes(file.read())
    return path
