"""The clock and its mapping to the epoch."""

import time

from mlscope.tracing.clock import (
    boot_id,
    ended_origin,
    epoch_offset_ns,
    now_ns,
    paired_stamps,
    started_origin,
    wall_step_ns,
)

SECOND = 1_000_000_000


def test_stamps_are_clock_monotonic() -> None:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    stamp = now_ns()
    assert before <= stamp <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def test_a_pair_is_one_instant() -> None:
    monotonic, epoch = paired_stamps()
    assert abs((time.time_ns() - epoch) - (now_ns() - monotonic)) < SECOND


def test_the_offset_maps_monotonic_to_epoch() -> None:
    assert abs(now_ns() + epoch_offset_ns() - time.time_ns()) < SECOND


def test_an_origin_keeps_its_start_when_it_ends() -> None:
    started = started_origin()
    ended = ended_origin(started)
    assert ended.monotonic_ns == started.monotonic_ns
    assert ended.monotonic_end_ns >= started.monotonic_ns


def test_a_step_of_the_wall_clock_shows() -> None:
    origin = started_origin().model_copy(update={"monotonic_end_ns": 0})
    assert wall_step_ns(origin) == 0
    stepped = origin.model_copy(
        update={
            "monotonic_end_ns": origin.monotonic_ns + SECOND,
            "epoch_end_ns": origin.epoch_start_ns + 3 * SECOND,
        }
    )
    assert wall_step_ns(stepped) == 2 * SECOND


def test_the_boot_has_an_id() -> None:
    assert boot_id() == boot_id()
