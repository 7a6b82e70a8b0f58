"""The libraries that ONNX Runtime's CUDA provider needs: those in NVIDIA's Python packages."""

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import onnxruntime as ort

_PLACES = ("gpu", "cuda", "tensorrt")


def needs_libraries(requested: Mapping[str, Any], device: str) -> bool:
    """Return whether the options `requested`, or else the `device`, name a GPU of NVIDIA."""
    place = str(requested.get("provider") or device).lower()
    return place.startswith(_PLACES)


@cache
def load_libraries() -> str:
    """Load CUDA's libraries and cuDNN into this process; return what could not be loaded.

    '' where all of them were. Without this, ONNX Runtime finds only those on the path of libraries,
    and none that PyTorch's or `onnxruntime-gpu[cuda,cudnn]`'s packages contain. Versions before
    1.21 can load none.
    """
    if not hasattr(ort, "preload_dlls"):
        return ""
    printed = io.StringIO()
    with redirect_stdout(printed):
        ort.preload_dlls()
    lines = [line for line in printed.getvalue().splitlines() if line.startswith("Failed to load")]
    return "; ".join(lines)
