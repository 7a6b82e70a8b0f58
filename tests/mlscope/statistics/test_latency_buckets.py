"""Buckets of latency: every time is in the bucket whose ends are around it."""

import numpy as np

from mlscope.statistics.latency_buckets import bounds_ns, buckets_of


def test_a_time_is_between_the_ends_of_its_bucket() -> None:
    times_ns = np.geomspace(1, 1e11, 500).astype(np.int64)
    for time_ns, bucket in zip(times_ns, buckets_of(times_ns), strict=True):
        begins, ends = bounds_ns(int(bucket))
        assert begins * (1 - 1e-12) <= time_ns < ends * (1 + 1e-12)


def test_less_than_a_nanosecond_is_in_the_first() -> None:
    assert buckets_of(np.array([-5, 0, 1])).tolist() == [0, 0, 0]


def test_buckets_divide_a_doubling() -> None:
    assert buckets_of(np.array([1024, 2048])).tolist() == [80, 88]
    assert buckets_of(np.array([1024]), per_octave=128).tolist() == [1280]
