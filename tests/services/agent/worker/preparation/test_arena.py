"""The shared memory: its layout, its pages, its limits."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.worker.preparation.arena import PENDING, UNUSABLE, Arena
from services.agent.worker.preparation.layout import REASON_BYTES, ArenaLayout, ArrayShape

ARRAYS = (ArrayShape((4, 3, 5), "float32"), ArrayShape((4, 7), "int64"), ArrayShape((4,), "uint8"))
DESCRIPTORS = Path("/proc/self/fd")
LAYOUT = ArenaLayout(slots=3, batch_size=4, steps=2, processes=5, arrays=ARRAYS)


@given(st.integers(1, 4), st.integers(1, 600), st.integers(1, 9), st.integers(1, 600))
def test_no_two_parts_share_a_page(slots: int, batch_size: int, steps: int, processes: int) -> None:
    arrays = tuple(
        ArrayShape((batch_size, *array.shape[1:]), array.element_type) for array in ARRAYS
    )
    layout = ArenaLayout(slots, batch_size, steps, processes, arrays)
    column = 8 * batch_size
    sizes = [*(array.size_bytes for array in arrays), column, column, column, column * steps * 2]
    ends = layout.control_bytes
    for slot in layout.slot_offsets:
        offsets = [*slot.arrays, slot.samples, slot.states, slot.threads, slot.stamps]
        for offset, size in zip(offsets, sizes, strict=True):
            assert offset % mmap.PAGESIZE == 0 <= offset - ends
            ends = offset + size
    assert ends <= layout.reserved_bytes <= layout.slot_offsets[0].reasons
    assert layout.slot_offsets[-1].reasons + batch_size * REASON_BYTES == layout.size_bytes


def test_a_layout_survives_its_message() -> None:
    assert ArenaLayout.of(LAYOUT.fields()) == LAYOUT


def test_two_mappings_of_an_arena_are_one_memory() -> None:
    arena, fd = Arena.create(LAYOUT)
    other = Arena(fd, LAYOUT)
    os.close(fd)
    other.slots[2].arrays[1][3, 6] = 42
    other.done[4], other.busy_ns[4], other.cancelled[0] = 7, 8, 9
    other.slots[1].set_reason(3, "a bad picture: ö")
    assert arena.slots[2].arrays[1][3, 6] == 42
    assert (arena.done[4], arena.prepared[4], arena.busy_ns[4]) == (7, 0, 8)
    assert arena.cancelled[0] == 9
    assert arena.slots[1].reason(3) == "a bad picture: ö"
    assert arena.slots[1].states.tolist() == [PENDING] * 3 + [UNUSABLE]
    assert sum(int(np.count_nonzero(array)) for array in arena.slots[0].arrays) == 0


def test_a_long_reason_is_cut_between_characters() -> None:
    arena, fd = Arena.create(LAYOUT)
    os.close(fd)
    memory = arena.slots[0]
    memory.set_reason(0, "ö" * REASON_BYTES)
    assert memory.reason(0) == "ö" * ((REASON_BYTES - 1) // 2)
    memory.set_reason(0, "short")
    assert memory.reason(0) == "short"


def test_an_arena_beyond_the_memory_is_refused_and_leaves_no_descriptor() -> None:
    descriptors = list(DESCRIPTORS.iterdir())
    huge = ArenaLayout(1, 1 << 40, 1, 1, (ArrayShape((1 << 40, 3), "float32"),))
    with pytest.raises(OSError, match="are not available"):
        Arena.create(huge)
    assert len(list(DESCRIPTORS.iterdir())) == len(descriptors)
