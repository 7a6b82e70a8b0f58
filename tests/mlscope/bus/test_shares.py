"""People share something bounded, and one of them never has more than half of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.shares import Shares

PEOPLE = ("", "ann", "bob")
TAKEN = st.lists(st.tuples(st.sampled_from(PEOPLE), st.integers(1, 9), st.booleans()))


@given(most=st.integers(0, 40), taken=TAKEN)
def test_nobody_passes_the_bounds_and_all_that_is_given_back_is_free(
    most: int, taken: list[tuple[str, int, bool]]
) -> None:
    shares, held = Shares(most), dict.fromkeys(PEOPLE, 0)
    for person, amount, is_given_back in taken:
        beside = sum(held.values()) + amount <= most
        within = not person or 2 * (held[person] + amount) <= most + most % 2
        assert shares.has_room(person, amount) == (beside and within)
        assert shares.leaves_half(person, amount) == within
        if beside and within:
            shares.add(person, amount)
            held[person] += amount
        if is_given_back:
            shares.add(person, -held[person])
            held[person] = 0
    for person, amount in held.items():
        shares.add(person, -amount)
    assert shares.has_room("", most)
    assert not shares._held, "nobody is remembered who holds nothing"


@given(held=st.integers(0, 9), most=st.integers(1, 9))
def test_one_person_who_holds_less_than_half_may_hold_one_more(held: int, most: int) -> None:
    """Also where there is only one: it is for whoever comes first."""
    shares = Shares(most)
    shares.add("ann", held)
    assert shares.leaves_half("ann") == (2 * held < most)


def test_one_is_held_while_a_context_is_open_also_one_that_fails() -> None:
    shares = Shares(2)
    with shares.one_of("ann"):
        assert (shares.has_room("ann"), shares.has_room("bob")) == (False, True)
        with shares.one_of(""):
            assert not shares.has_room("")
    with pytest.raises(KeyError), shares.one_of("ann"):
        raise KeyError
    assert not shares._held
