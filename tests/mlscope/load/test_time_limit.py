"""Loads of other packages are made in time, or given up."""

import threading

import pytest

from mlscope.load.errors import LoadTooSlow
from mlscope.load.time_limit import in_time


def test_a_loop_without_end_is_given_up_and_ended() -> None:
    threads: list[threading.Thread] = []

    def endless() -> None:
        threads.append(threading.current_thread())
        while True:
            pass

    with pytest.raises(LoadTooSlow, match=r"'mine' of another package made no load within 0\.05 s"):
        in_time("mine", endless, 0.05)
    threads[0].join(10)
    assert not threads[0].is_alive()


def test_a_value_and_an_error_come_as_they_are() -> None:
    assert in_time("mine", lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        in_time("mine", lambda: 1 / 0)
    with pytest.raises(TimeoutError):
        in_time("mine", _late)


def test_a_built_in_scenario_takes_no_thread() -> None:
    assert in_time("online", threading.current_thread) is threading.current_thread()


def _late() -> None:
    raise TimeoutError
