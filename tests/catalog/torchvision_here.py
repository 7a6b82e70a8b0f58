"""torchvision beside a torch for CPUs: its own operators are built for another one.

Their Python twins stand in, for tests alone: the same answers, slowly.
"""

import os
import sys
from importlib import import_module
from typing import Any

from tools.catalog.torchvision import declare_operators


def importable() -> None:
    """Let torchvision and timm be imported in this process, and detectors run; once."""
    # What stands in for RoI align is compiled otherwise, by a C++ compiler nobody need have.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    torch = import_module("torch")
    if torch.version.cuda is not None or "torchvision" in sys.modules:
        return
    library = declare_operators(torch)
    library.impl("nms", _suppressed, "CPU")
    torchvision: Any = import_module("torchvision")
    torchvision.declared_operators = library  # lives as long as the operators are used
    boxes: Any = import_module("torchvision.ops.boxes")
    boxes._assert_has_ops = lambda: None


def _suppressed(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Return the places of the boxes that stay, best first (torchvision.ops.nms)."""
    torch = import_module("torch")
    overlaps = import_module("torchvision.ops").box_iou(boxes, boxes)
    waiting = scores.argsort(descending=True, stable=True)
    kept = []
    while len(waiting):
        kept.append(int(waiting[0]))
        waiting = waiting[1:][overlaps[waiting[0], waiting[1:]] <= iou_threshold]
    return torch.tensor(kept, dtype=torch.int64)
