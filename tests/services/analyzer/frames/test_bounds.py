"""What a large evaluation's runs may have read of them."""

from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.frames.bounds import Bounds, shares


def test_what_small_runs_leave_is_for_the_large() -> None:
    assert shares([10, 10_000], 4000) == [2000, 3990]
    assert shares([9000, 10, 10_000], 4010) == [2000, 1336, 2000]
    assert shares([], 4000) == []


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9), st.integers(1, 3000))
def test_no_more_is_read_than_the_bound_and_all_where_it_fits(counts: list[int], most: int) -> None:
    given_ = shares(counts, most)
    read = [min(pair) for pair in zip(counts, given_, strict=True)]
    assert sum(read) <= most
    assert read == counts or most - sum(read) < len(counts)
    cut = [share for count, share in zip(counts, given_, strict=True) if count > share]
    assert not cut or max(cut) - min(cut) <= 1


def test_each_kind_of_row_has_shares_of_its_own() -> None:
    rest = {"outputs": 0, "samples": 0, "named_layers": 0}
    stored = [{"spans": 5, "queries": 100, **rest}, {"spans": 90, "queries": 2, **rest}]
    first, second = Bounds(spans=20, queries=20, outputs=20).shared(stored)
    assert (first.spans, second.spans) == (10, 15)
    assert (first.queries, second.queries) == (18, 10)
    most = Bounds().samples
    stored = [{**each, "samples": most, "outputs": 0} for each in stored]
    assert [each.samples for each in Bounds().shared(stored)] == [most // 2] * 2
