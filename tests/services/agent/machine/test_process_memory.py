"""What a process holds, told from what it merely reserved."""

import os
from pathlib import Path

from services.agent.machine.process_memory import process_memory_bytes


def test_what_is_resident_or_swapped_counts(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(
        "Name:\tpython\nVmPeak:\t  9000 kB\nVmRSS:\t    20 kB\nVmSwap:\t     4 kB\nThreads:\t1\n"
    )
    assert process_memory_bytes(7, tmp_path) == 24 * 1024


def test_nobody_holds_nothing(tmp_path: Path) -> None:
    assert process_memory_bytes(7, tmp_path) == 0


def test_memory_that_is_taken_shows() -> None:
    before = process_memory_bytes(os.getpid())
    taken = os.urandom(64 << 20)
    assert process_memory_bytes(os.getpid()) - before > 32 << 20 < len(taken)
