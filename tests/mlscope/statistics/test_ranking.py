"""The best of several estimates is named only where the intervals tell it apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.statistics import Best, Estimate, NoValues, are_told_apart, best

values = st.integers(-1000, 1000).map(float)
widths = st.integers(0, 100).map(float)
intervals = st.builds(
    lambda value, down, up: Estimate(value, value - down, value + up), values, widths, widths
)
candidates = st.lists(intervals, min_size=1, max_size=8)


def test_the_largest_with_its_interval_above_all_others_has_no_rival() -> None:
    rates = [Estimate(178.0, 170.0, 186.0), Estimate(250.0, 240.0, 260.0), Estimate(9.0, 8.0, 10.0)]
    assert best(rates) == Best(1, ())
    assert best(rates, is_largest=False) == Best(2, ())


def test_intervals_that_overlap_are_not_told_apart() -> None:
    rates = [Estimate(178.0, 0.0, 468.0), Estimate(250.0, 240.0, 260.0), Estimate(9.0, 8.0, 10.0)]
    assert best(rates) == Best(1, (0,))
    assert best(rates, is_largest=False) == Best(2, (0,))


def test_intervals_that_touch_are_not_told_apart() -> None:
    assert not are_told_apart(Estimate(1.0, 0.0, 2.0), Estimate(3.0, 2.0, 4.0))
    assert best([Estimate(5.0, 5.0, 5.0), Estimate(5.0, 5.0, 5.0)]) == Best(0, (1,))


def test_an_unknown_interval_is_never_told_apart() -> None:
    assert best([Estimate(1.0), Estimate(1000.0, 999.0, 1001.0)]) == Best(1, (0,))
    assert best([Estimate(1.0, 0.9, 1.1), Estimate(1000.0)]) == Best(1, (0,))


def test_one_candidate_is_beyond_doubt_and_none_is_refused() -> None:
    assert best([Estimate(1.0)]).is_beyond_doubt
    with pytest.raises(NoValues):
        best([])


@given(candidates)
def test_no_rival_is_better_and_the_others_are_told_apart(estimates: list[Estimate]) -> None:
    ranked = best(estimates)
    leader = estimates[ranked.place]
    assert all(estimate.value <= leader.value for estimate in estimates)
    told = set(range(len(estimates))) - {ranked.place, *ranked.rivals}
    assert all(are_told_apart(estimates[place], leader) for place in told)
    assert not any(are_told_apart(estimates[place], leader) for place in ranked.rivals)


@given(candidates)
def test_the_smallest_is_the_largest_of_the_negatives(estimates: list[Estimate]) -> None:
    negatives = [Estimate(-e.value, -(e.high or 0.0), -(e.low or 0.0)) for e in estimates]
    assert best(estimates, is_largest=False) == best(negatives)


@given(candidates, widths)
def test_wider_intervals_only_add_rivals(estimates: list[Estimate], more: float) -> None:
    wider = [Estimate(e.value, (e.low or 0.0) - more, (e.high or 0.0) + more) for e in estimates]
    assert set(best(estimates).rivals) <= set(best(wider).rivals)


@given(candidates)
def test_the_order_of_candidates_does_not_matter(estimates: list[Estimate]) -> None:
    assert best(estimates[::-1]).is_beyond_doubt == best(estimates).is_beyond_doubt
