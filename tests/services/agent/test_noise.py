"""What else the machine was doing."""

import os

from hypothesis import given
from hypothesis import strategies as st

from services.agent.noise import Reading, noise_between, reading, resident_bytes

READINGS = st.builds(
    Reading,
    load_average=st.floats(0, 100),
    involuntary_switches=st.integers(0, 10**6),
    major_faults=st.integers(0, 10**6),
    cpu_s=st.floats(0, 10**6),
)


@given(READINGS, READINGS)
def test_counters_are_differences_and_loads_are_as_read(before: Reading, after: Reading) -> None:
    noise = noise_between(before, after)
    assert noise["load_average_start"] == before.load_average
    assert noise["load_average_end"] == after.load_average
    switches = after.involuntary_switches - before.involuntary_switches
    assert noise["involuntary_switches"] == switches
    assert noise["major_faults"] == after.major_faults - before.major_faults
    assert abs(noise["cpu_s"] - (after.cpu_s - before.cpu_s)) < 1e-5


def test_work_in_between_is_in_the_cpu_seconds() -> None:
    before = reading()
    while reading().cpu_s < before.cpu_s + 0.02:
        sum(range(1000))
    assert noise_between(before, reading())["cpu_s"] >= 0.02


def test_memory_that_is_taken_shows() -> None:
    before = resident_bytes()
    taken = os.urandom(32 << 20)
    assert resident_bytes() - before > 16 << 20 < len(taken)
