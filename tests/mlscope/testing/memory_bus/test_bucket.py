"""A bucket in memory: revisions guard, keys run out, watchers see both."""

from collections import deque

import pytest

from mlscope.bus.errors import Conflict
from mlscope.bus.records import Entry
from mlscope.bus.streams import Bucket
from mlscope.testing.memory_bus.bucket import BucketState
from tests.mlscope.testing.memory_bus.clock import Clock


@pytest.fixture
def leases(clock: Clock) -> BucketState:
    return BucketState(Bucket("leases", ttl_s=10.0), clock)


def test_a_revision_guards_and_zero_asks_for_a_new_key(leases: BucketState) -> None:
    first = leases.put("a", b"1", 0)
    with pytest.raises(Conflict):
        leases.put("a", b"2", 0)
    second = leases.put("a", b"2", first)
    with pytest.raises(Conflict):
        leases.put("a", b"3", first)
    leases.put("a", None)
    assert leases.put("a", b"4", 0) > second


def test_a_key_that_ran_out_is_new_again(leases: BucketState, clock: Clock) -> None:
    leases.put("a", b"1", 0)
    clock.now_s = 10.0
    assert leases.get("a") is None
    leases.put("a", b"2", 0)
    assert leases.entries()[0].value == b"2"


def test_a_renewed_key_lasts_from_then(leases: BucketState, clock: Clock) -> None:
    leases.put("a", b"1")
    clock.now_s = 9.0
    leases.put("a", b"1")
    clock.now_s = 18.9
    assert leases.get("a") is not None
    assert leases.next_end_s() == 19.0


def test_watchers_see_changes_deletions_and_ends(leases: BucketState, clock: Clock) -> None:
    seen: deque[Entry] = deque()
    leases.watchers.append(seen)
    for key in ("a", "b"):
        leases.put(key, b"1")
    leases.put("a", None)
    clock.now_s = 10.0
    leases.expire()
    assert [(e.key, e.value) for e in seen] == [("a", b"1"), ("b", b"1"), ("a", None), ("b", None)]
    assert [e.revision for e in seen] == [1, 2, 3, 4]


def test_a_bucket_without_lease_keeps_for_ever(clock: Clock) -> None:
    catalog = BucketState(Bucket("catalog"), clock)
    catalog.put("a", b"1")
    clock.now_s = 1e9
    assert catalog.get("a") is not None
    assert catalog.next_end_s() is None
