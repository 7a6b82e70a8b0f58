"""Opens and closes what a session shares, again and again, in a process that is to end well.

`python -m tests.services.agent.link.shared_openings ROUNDS FOLDER`: each round has a ring, an arena
whose arrays are locked in memory and bound by a model, and the model's outputs, which outlive it.
"""

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from services.agent.link.ring import Handover
from services.agent.predictors.onnxruntime.binding import BoundSession, Device
from services.agent.predictors.page_locking import PageLocks
from services.agent.worker.preparation.arena import Arena
from services.agent.worker.preparation.layout import ArenaLayout, ArrayShape
from tests.services.agent.predictors.onnxruntime.test_predictor import plain_session

LAYOUT = ArenaLayout(
    slots=3, batch_size=1, steps=1, processes=1, arrays=(ArrayShape((1, 3, 32, 32), "float32"),)
)


def locks() -> PageLocks:
    """Return locks by the kernel, which stands in for CUDA's driver."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, address: int, size_bytes: int) -> None:
        if getattr(libc, name)(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)):
            raise RuntimeError(os.strerror(ctypes.get_errno()))

    return PageLocks(
        lambda address, size_bytes: call("mlock", address, size_bytes),
        lambda address: call("munlock", address, 1),
    )


def one_round(folder: Path) -> Any:
    """Open, predict and close; return the outputs."""
    handover = Handover.create(1 << 16, 1 << 16, folder)
    arena, descriptor = Arena.create(LAYOUT)
    bound = BoundSession(plain_session(), Device("cpu", locks()))
    batches = [{"images": slot.arrays[0]} for slot in arena.slots]
    outputs = [bound.predict(batch) for batch in batches]
    handover.push(outputs[-1]["scores"].tobytes())
    bound.drop()
    os.close(descriptor)
    handover.close()
    return outputs


def main(rounds: int, folder: Path) -> None:
    """Keep every round's outputs until the interpreter frees them."""
    kept.extend(one_round(folder) for _ in range(rounds))


kept: list[Any] = []

if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
