"""Restart delays double while a process keeps ending, and start over; a log stays bounded."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cli.cluster.supervised import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    STABLE_S,
    Restarts,
    after_end,
    bound_log,
    delay_s,
)


def test_delays_double_up_to_a_bound() -> None:
    history, delays = Restarts(), []
    for _ in range(8):
        history = after_end(history, 0.0)
        delays.append(delay_s(history))
    assert (history.total, delays) == (8, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_a_process_that_held_starts_over() -> None:
    history = after_end(Restarts(total=9, in_a_row=9), STABLE_S)
    assert delay_s(history) == FIRST_DELAY_S
    assert history.total == 10


@given(st.lists(st.floats(0, 1e9), max_size=2000))
def test_a_delay_is_always_within_its_bounds(spans_s: list[float]) -> None:
    history = Restarts()
    for ran_s in spans_s:
        history = after_end(history, ran_s)
        assert FIRST_DELAY_S <= delay_s(history) <= LONGEST_DELAY_S
    assert history.total == len(spans_s)


def test_a_log_is_bounded_while_its_writer_goes_on(tmp_path: Path) -> None:
    log, older = tmp_path / "a.log", tmp_path / "a.log.1"
    log.touch(0o600)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 10)
        assert not bound_log(log, max_bytes=40)
        writer.write(b"!")
        assert bound_log(log, max_bytes=40)
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert older.read_bytes() == b"old\n" * 9 + b"!", "whole lines, no more than the bound"
    assert older.stat().st_mode & 0o777 == 0o600
    assert not bound_log(tmp_path / "none.log")


def test_a_log_that_grew_far_beyond_its_bound_leaves_its_newest_lines(tmp_path: Path) -> None:
    """A flood writes more than the bound before the next look."""
    log, older = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_bytes(b"before\n" + b"flood\n" * 1000 + b"newest\n")
    assert bound_log(log, max_bytes=100)
    assert older.stat().st_size <= 100
    assert older.read_bytes().startswith(b"flood\n")
    assert older.read_bytes().endswith(b"flood\nnewest\n")
