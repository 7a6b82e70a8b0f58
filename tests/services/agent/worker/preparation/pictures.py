"""A dataset of pictures, one of them broken, and four that do harm to whoever decodes them."""

import os
from collections.abc import Sequence
from pathlib import Path

from schemas.plan import Subject
from services.agent.worker.preparation.layout import ArenaLayout, ArrayShape
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.queries.pipeline import steps_before, steps_of
from tests.services.agent.builders import MANIFESTS, a_picture_subject

BATCH, SLOTS, SHAPE = 8, 3, (3, 224, 224)
NAMES = ["images:0"]
GOOD = tuple(range(6))
BROKEN, CRASHING, HANGING, RAISING = 6, 7, 8, 9

_FAULTS = """
import ctypes, os, sys, time
from PIL import Image

Image.preinit()  # so that the first picture takes no longer than others
opened = Image.open
def opening(file, *arguments, **named):
    body = file.getvalue()
    if body.endswith(b"CRASH"):
        os.abort()
    if body.endswith(b"RAISE"):
        raise RuntimeError("a bug of the decoder")
    if body.endswith(b"HANG"):
        time.sleep(3600)
    if body.endswith(b"HOLD"):
        ctypes.PyDLL(None).sleep(3600)  # without letting the interpreter go
    return opened(file, *arguments, **named)
Image.open = opening
"""


def picture_files() -> dict[str, bytes]:
    """Return good pictures, a broken one, and four that do harm where faults are planted."""
    bodies = [path.read_bytes() for path in sorted((MANIFESTS / "datasets/photos").glob("*.jpg"))]
    files = {f"good{number}.jpg": bodies[number] for number in GOOD}
    broken = {"broken.jpg": bodies[0][:500]}
    harmful = {"crash.jpg": b"CRASH", "hang.jpg": b"HANG", "raise.jpg": b"RAISE"}
    harmful["hold.jpg"] = b"HOLD"
    return files | broken | {name: bodies[0] + end for name, end in harmful.items()}


def pictures(folder: Path) -> Subject:
    """Return EfficientNet-Lite0 with these pictures; `folder` becomes its manifests folder."""
    return a_picture_subject(folder, picture_files())


def plant_faults(folder: Path) -> str:
    """Return a PYTHONPATH with which four pictures do harm in processes started from now on."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_FAULTS)
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def an_order(subject: Subject, manifests: Path, scratch: Path) -> PreparationOrder:
    """Return the order to prepare a subject's samples."""
    return PreparationOrder(subject.model, subject.dataset, manifests, {}, scratch)


def a_pool(
    order: PreparationOrder, processes: int, timeout_s: float = 60.0, samples: Sequence[object] = ()
) -> PreparationPool:
    """Return a started pool for an order; close it."""
    pool = PreparationPool(order, timeout_s)
    steps = steps_before(steps_of(order.model))
    arrays = (ArrayShape((BATCH, *SHAPE), "float32"),)
    try:
        pool.map(ArenaLayout(SLOTS, BATCH, steps, processes, arrays), NAMES, samples)
        pool.start(processes)
    except BaseException:
        pool.close()
        raise
    return pool
