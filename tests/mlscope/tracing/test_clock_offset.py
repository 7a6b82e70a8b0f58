"""The offset of two clocks is within its bound, whatever the network does."""

from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.clock_offset import ClockOffset, Exchange, offset_of

TRAVEL_NS = st.integers(0, 10**9)


def exchange(ahead_ns: int, there_ns: int, answering_ns: int, back_ns: int) -> Exchange:
    """Return the stamps of a question and its answer; the clock that answers is ahead."""
    return Exchange(
        sent_ns=7,
        received_ns=7 + there_ns + ahead_ns,
        answered_ns=7 + there_ns + answering_ns + ahead_ns,
        heard_ns=7 + there_ns + answering_ns + back_ns,
    )


@given(
    st.integers(-(10**13), 10**13),
    st.lists(st.tuples(TRAVEL_NS, TRAVEL_NS, TRAVEL_NS), min_size=1, max_size=8),
)
def test_the_true_offset_is_within_the_bound(
    ahead_ns: int, travels: list[tuple[int, int, int]]
) -> None:
    offset = offset_of([exchange(ahead_ns, *travel) for travel in travels])
    assert offset is not None
    assert abs(offset.offset_ns - ahead_ns) <= offset.bound_ns
    quickest_ns = min(there_ns + back_ns for there_ns, _, back_ns in travels)
    assert offset.bound_ns == quickest_ns // 2 + 1


def test_what_a_step_of_a_clock_spoils_does_not_count() -> None:
    spoilt = [Exchange(100, 200, 150, 300), Exchange(100, 200, 900, 300)]
    assert offset_of(spoilt) is None
    assert offset_of([*spoilt, Exchange(100, 200, 200, 102)]) == ClockOffset(99, 2)
