"""The least recently used values leave a cache that is full."""

from services.analyzer.traces.cache import BoundedCache


def test_the_least_recently_used_value_leaves() -> None:
    cache: BoundedCache[str] = BoundedCache(10, 9)
    cache.put(("a", 1), "first", 4)
    cache.put(("a", 2), "second", 4)
    assert cache.get(("a", 1)) == "first"
    cache.put(("b", 1), "third", 4)
    assert cache.get(("a", 2)) is None
    assert cache.size_bytes == 8


def test_a_value_that_is_too_large_stays_alone() -> None:
    cache: BoundedCache[str] = BoundedCache(10, 9)
    cache.put(("a",), "small", 1)
    cache.put(("b",), "large", 50)
    assert (cache.get(("a",)), cache.get(("b",))) == (None, "large")


def test_the_least_recently_used_of_too_many_values_leaves() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 2)
    for key in (("a",), ("b",), ("c",)):
        cache.put(key, "", 1)
    assert (cache.get(("a",)), cache.get(("b",)), cache.get(("c",))) == (None, "", "")


def test_all_values_of_one_evaluation_are_dropped() -> None:
    cache: BoundedCache[str] = BoundedCache(10, 9)
    for key in (("a", 1), ("a", 2), ("b", 1)):
        cache.put(key, "", 1)
    cache.drop("a")
    assert cache.get(("a", 1)) is None
    assert cache.get(("b", 1)) == ""
