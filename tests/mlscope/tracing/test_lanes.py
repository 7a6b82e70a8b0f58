"""Every span has one lane; lanes sort as on a screen, and have the same key live and stored."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.lanes import (
    COUNTER,
    COUNTER_TITLES,
    DEVICE,
    HOST,
    LOAD,
    LaneKey,
    code_of,
    key_of,
    lane_codes,
    lane_of,
)
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import resource
from services.agent.collectors.energy import DRAM, GPU, PACKAGE
from services.agent.collectors.nvml.series import UNITS

_KEYS = st.builds(
    LaneKey,
    st.sampled_from([LOAD, HOST, DEVICE, COUNTER]),
    st.integers(0, 7),
    st.integers(0, 65_535),
    st.integers(-(2**31), 2**31 - 1),
)


@given(_KEYS, _KEYS)
def test_numbers_are_keys_and_sort_like_them(first: LaneKey, second: LaneKey) -> None:
    assert key_of(code_of(first)) == first
    assert (code_of(first) < code_of(second)) == (first < second)


def _codes(*rows: tuple[int, int, int, int, int]) -> list[LaneKey]:
    columns = np.array(rows).T
    return [key_of(code) for code in lane_codes(*columns).tolist()]


def test_a_span_lies_in_the_lane_of_its_level_thread_stream_or_series() -> None:
    assert _codes(
        (Level.FRAMEWORK, SpanKind.HOST, 3, -1, 9),
        (Level.SYSTEM, SpanKind.LAUNCH, 3, -1, 9),
        (Level.SYSTEM, SpanKind.KERNEL, 7, 1, 9),
        (Level.SYSTEM, SpanKind.COPY, 7, -1, 8),
        (Level.SYSTEM, SpanKind.SAMPLE, 3, 1, 12),
    ) == [
        LaneKey(HOST, Level.FRAMEWORK, 0, 3),
        LaneKey(HOST, Level.SYSTEM, 0, 3),
        LaneKey(DEVICE, 0, 1, 7),
        LaneKey(DEVICE, 0, 0, 7),
        LaneKey(COUNTER, 0, 1, 12),
    ]


def test_lanes_say_what_their_spans_share() -> None:
    layers = lane_of(4, LaneKey(HOST, Level.FRAMEWORK, 0, 3))
    assert (layers.key, layers.level, layers.thread) == ("host/layer/3", "layer", 3)
    stream = lane_of(5, LaneKey(DEVICE, 0, 1, 7))
    assert (stream.title, stream.device, stream.stream) == ("device 1 · stream 7", 1, 7)
    power = lane_of(6, LaneKey(COUNTER, 0, 1, 12), "power", "W")
    assert (power.key, power.level, power.title) == ("counter/power/1", "W", "power · device 1")
    memory = lane_of(7, LaneKey(COUNTER, 0, 0, 13), "resource.rss", "By")
    assert (memory.key, memory.title) == ("counter/resource.rss/0", "resident memory")
    assert lane_of(0, LaneKey(LOAD, 1, 0, 0)).key == "load/late"


def test_every_series_of_our_collectors_has_words() -> None:
    own = {f"resource.{name}" for name in ("rss", "cpu", *resource.totals())}
    assert own | set(UNITS) | {GPU, PACKAGE, DRAM} == set(COUNTER_TITLES)


def test_levels_and_devices_that_no_number_holds_share_the_last_lane() -> None:
    assert _codes(
        (99, SpanKind.HOST, 3, 5, 9),
        (-1, SpanKind.HOST, -3, 5, 9),
        (Level.SYSTEM, SpanKind.KERNEL, 7, 70_000, 9),
        (Level.SYSTEM, SpanKind.SET, -(2**31), -5, 9),
    ) == [
        LaneKey(HOST, 15, 0, 3),
        LaneKey(HOST, 0, 0, -3),
        LaneKey(DEVICE, 0, 65_535, 7),
        LaneKey(DEVICE, 0, 0, -(2**31)),
    ]


def test_a_lane_has_the_words_of_its_group() -> None:
    host = lane_of(1, LaneKey(HOST, Level.SYSTEM, 0, 12))
    assert (host.key, host.group, host.title) == (
        "host/system/12",
        "host",
        "system · thread 12",
    )
    odd = lane_of(2, LaneKey(HOST, 15, 0, -3))
    assert (odd.key, odd.level, odd.thread) == ("host/15/-3", "15", -3)
    stream = lane_of(3, LaneKey(DEVICE, 0, 0, 7))
    assert (stream.key, stream.group, stream.level) == ("device/0/7", "device", "kernel")
    cycles = lane_of(4, LaneKey(COUNTER, 0, 0, 2), "perf.cycles", "1")
    assert (cycles.key, cycles.title, cycles.device) == ("counter/perf.cycles/0", "cycles", 0)
    titles = [lane_of(n, LaneKey(LOAD, n, 0, 0)).title for n in range(3)]
    assert titles == ["queries", "issued late", "queued"]
