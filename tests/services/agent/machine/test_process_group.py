"""Processes by group, from files as the kernel writes them and from the kernel itself."""

import os
import subprocess
from pathlib import Path

from services.agent.machine.process_group import group_threads, machine_threads

STAT = "{pid} ({name}) S 1 {group} 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 1 2\n"


def with_process(folder: Path, pid: int, name: str, group: int, threads: int) -> None:
    (folder / str(pid)).mkdir()
    text = STAT.format(pid=pid, name=name, group=group, threads=threads)
    (folder / str(pid) / "stat").write_text(text)


def test_threads_are_counted_by_group(tmp_path: Path) -> None:
    with_process(tmp_path, 11, "a worker", 11, 7)
    with_process(tmp_path, 12, ") S 1 11 (", 11, 1)
    with_process(tmp_path, 13, "other", 13, 5)
    (tmp_path / "14").mkdir()  # it has just ended
    (tmp_path / "uptime").touch()
    assert group_threads(11, tmp_path) == {11: 7, 12: 1}
    assert group_threads(99, tmp_path) == {}


def test_the_machine_s_threads_are_read(tmp_path: Path) -> None:
    assert machine_threads(tmp_path) == 0
    (tmp_path / "loadavg").write_text("1.00 0.50 0.25 3/412 99\n")
    assert machine_threads(tmp_path) == 412


def test_a_real_group_is_found() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            assert group_threads(process.pid) == {process.pid: 1}
            assert machine_threads() > len(group_threads(os.getpgrp()))
        finally:
            process.kill()
