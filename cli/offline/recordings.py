"""Recordings of an NVIDIA H200 that mlscope ships: bundles that the demo plays back."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).parent / "recorded"
RECORDINGS: Mapping[str, str] = MappingProxyType(
    {
        "h200-resnet50": "ResNet-50 at batch 32",
        "h200-bert-base": "BERT base at batch 16",
        "h200-detector": "Faster R-CNN at batch 1",
    }
)
"""What was measured, by the name of the recording."""


def unpacked(name: str, folder: Path) -> Path:
    """Write the bundle of the recording `name` into `folder`, and return its path."""
    path = folder / f"{name}.bundle"
    path.write_bytes(gzip.decompress((FOLDER / f"{path.name}.gz").read_bytes()))
    return path
