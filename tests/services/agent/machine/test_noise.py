"""What else the machine was doing."""

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.machine.noise import (
    MachineReading,
    busy_s,
    noise_between,
    read_machine,
    resident_bytes,
)

READINGS = st.builds(
    MachineReading,
    load_average=st.floats(0, 100),
    involuntary_switches=st.integers(0, 10**6),
    major_faults=st.integers(0, 10**6),
    cpu_s=st.floats(0, 10**6),
    at_s=st.floats(0, 10**6),
    busy_s=st.none() | st.floats(0, 10**6),
    cores=st.integers(1, 2),
)


@given(READINGS, READINGS)
def test_counters_are_differences_and_loads_are_as_read(
    before: MachineReading, after: MachineReading
) -> None:
    noise = noise_between(before, after)
    assert noise["load_average_start"] == before.load_average
    assert noise["load_average_end"] == after.load_average
    switches = after.involuntary_switches - before.involuntary_switches
    assert noise["involuntary_switches"] == switches
    assert noise["major_faults"] == after.major_faults - before.major_faults
    assert abs(noise["cpu_s"] - (after.cpu_s - before.cpu_s)) < 1e-5
    assert noise.get("others_cpu_s", 0.0) >= 0.0


def test_what_others_used_is_what_is_busy_beside_us() -> None:
    before = MachineReading(0.0, 0, 0, cpu_s=1.0, at_s=5.0, busy_s=10.0, cores=2)
    after = MachineReading(0.0, 0, 0, cpu_s=2.5, at_s=8.0, busy_s=13.5, cores=2)
    noise = noise_between(before, after)
    assert (noise["others_cpu_s"], noise["elapsed_s"], noise["cores"]) == (2.0, 3.0, 2)
    for unknown in (replace(before, busy_s=None), replace(before, cores=1)):
        assert "others_cpu_s" not in noise_between(unknown, after)


def test_only_the_cores_we_may_use_are_summed(tmp_path: Path) -> None:
    times = tmp_path / "stat"
    times.write_text(
        "cpu  99 99 99 99 99 99 99 99 0 0\n"
        "cpu0 10 20 30 9000 9000 40 50 60 7 7\n"
        "cpu1 1 1 1 9000 9000 1 1 1 7 7\n"
        "cpu10 500 0 0 0 0 0 0 0 0 0\n"
    )
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert busy_s(frozenset({0, 1}), times) == pytest.approx(216 * tick_s)
    assert busy_s(frozenset({1}), times) == pytest.approx(6 * tick_s)
    assert busy_s(frozenset({0, 7}), times) is None
    times.write_text("cpu0 0 0 0 0 0 0 0 0 0 0\n")
    assert busy_s(frozenset({0}), times) is None
    assert busy_s(frozenset({0}), tmp_path / "none") is None


def test_work_of_another_process_is_the_others() -> None:
    before = read_machine()
    other = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"]
    subprocess.run(other, check=True)
    after = read_machine()
    if before.busy_s is not None and before.busy_s != after.busy_s:
        assert noise_between(before, after)["others_cpu_s"] >= 0.3


def test_work_in_between_is_in_the_cpu_seconds() -> None:
    before = read_machine()
    while read_machine().cpu_s < before.cpu_s + 0.02:
        sum(range(1000))
    assert noise_between(before, read_machine())["cpu_s"] >= 0.02


def test_memory_that_is_taken_shows() -> None:
    before = resident_bytes()
    # Pages of its own: the allocator might hand out what the process freed and still holds.
    with mmap.mmap(-1, 64 << 20) as taken:
        taken.write(bytes([1]) * len(taken))
        assert resident_bytes() - before > 32 << 20
