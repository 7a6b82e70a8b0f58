"""A stream in memory keeps NATS's rules: guards, repeats, the bound, purging."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.errors import Conflict, StreamFull
from mlscope.bus.streams import Stream
from mlscope.testing.memory_bus.log import Log


def a_log(max_bytes: int = -1, *, forgets: bool = False) -> Log:
    """Return a log on a clock that stands still."""
    return Log(Stream("LOG", ("a.>",), max_bytes=max_bytes, forgets=forgets), lambda: 0.0)


def test_a_guard_holds_on_its_filter_only() -> None:
    log = a_log()
    first = log.append("a.x", b"1", expected=("a.x", 0))
    log.append("a.y", b"2")
    assert log.append("a.x", b"3", expected=("a.x", first)) == 3
    with pytest.raises(Conflict) as raised:
        log.append("a.x", b"4", expected=("a.*", first))
    assert (raised.value.expected, raised.value.actual) == (first, 3)


def test_a_repeat_comes_before_the_guard() -> None:
    log = a_log()
    first = log.append("a.x", b"1", id="one", expected=("a.x", 0))
    assert log.append("a.x", b"1", id="one", expected=("a.x", 0)) == first
    assert log.last_sequence == first


def test_a_full_log_refuses_and_a_forgetful_one_drops_its_oldest() -> None:
    refusing, forgetting = a_log(10), a_log(10, forgets=True)
    for log in (refusing, forgetting):
        log.append("a.x", b"1")
        log.append("a.y", b"2")
    with pytest.raises(StreamFull):
        refusing.append("a.z", b"3")
    forgetting.append("a.z", b"3")
    assert [kept.body for kept in refusing.beyond(("a.>",), 0)] == [b"1", b"2"]
    assert [kept.body for kept in forgetting.beyond(("a.>",), 0)] == [b"2", b"3"]


def test_what_no_forgetting_makes_room_for_is_refused() -> None:
    with pytest.raises(StreamFull):
        a_log(10, forgets=True).append("a.x", bytes(20))


def test_a_purge_makes_room_and_sequences_go_on() -> None:
    log = a_log(10)
    log.append("a.x", b"1")
    second = log.append("a.y", b"2")
    log.purge("a.x")
    assert log.get(1) is None
    assert log.append("a.z", b"3") == second + 1


@given(
    st.lists(st.sampled_from(["a.x", "a.y", "a.z.w"])),
    st.integers(0, 12),
    st.sampled_from(["a.x", "a.*", "a.>"]),
    st.integers(0, 12),
)
def test_reading_gives_what_was_appended_and_not_purged(
    subjects: list[str], after: int, wanted: str, up_to: int
) -> None:
    log = a_log()
    for subject in subjects:
        log.append(subject, subject.encode())
    log.purge("a.x", up_to)
    last = up_to or len(subjects)
    left = [(n, s) for n, s in enumerate(subjects, 1) if s != "a.x" or n > last]
    depth = {"a.x": ("a.x",), "a.*": ("a.x", "a.y"), "a.>": ("a.x", "a.y", "a.z.w")}[wanted]
    found = [(kept.sequence, kept.subject) for kept in log.beyond((wanted,), after)]
    assert found == [(n, s) for n, s in left if n > after and s in depth]
    assert log.last_on(wanted) == max((n for n, s in left if s in depth), default=0)
