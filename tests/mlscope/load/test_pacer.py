"""The pacer's process: every query once, never early, and no way to hang on it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlscope.load import PacerDied, issuing, pacer
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.pacer import PacerProcess
from mlscope.load.pacing import lateness_ns

MARGIN_NS = 100_000
FAR_NS = np.array([0, 3_600 * 10**9], np.int64)


def _child(paced: PacerProcess) -> int:
    return paced._running().pid


def test_every_query_arrives_once_in_order_and_none_early() -> None:
    due_ns = poisson_due_ns(2000, 1000, 1)
    with PacerProcess(due_ns, MARGIN_NS) as paced:
        origin_ns = paced.start()
        seen = [(query, issued_ns, time.monotonic_ns()) for query, issued_ns in paced]
    assert [query for query, _, _ in seen] == list(range(1000))
    assert [issued_ns for _, issued_ns, _ in seen] == paced.issued_ns().tolist()
    assert lateness_ns(due_ns, paced.issued_ns(), origin_ns).min() >= 0
    assert all(received_ns >= issued_ns for _, issued_ns, received_ns in seen)
    assert 0 < paced.core_share <= 1.1


def test_it_calibrates_where_no_margin_is_given() -> None:
    with PacerProcess(np.zeros(1, np.int64)) as paced:
        assert paced.margin_ns == -1
        paced.start()
        assert len(list(paced)) == 1
        assert 80_000 <= paced.margin_ns <= 400_000


def test_it_runs_on_the_cores_that_it_is_given() -> None:
    core = {min(os.sched_getaffinity(0))}
    with PacerProcess(np.zeros(1, np.int64), MARGIN_NS, cores=core) as paced:
        assert os.sched_getaffinity(_child(paced)) == core
        paced.start()
        assert len(list(paced)) == 1


def test_no_queries_is_a_load_too() -> None:
    with PacerProcess(np.zeros(0, np.int64), MARGIN_NS) as paced:
        paced.start()
        assert list(paced) == []


def test_a_slow_consumer_misses_nothing_and_delays_nobody() -> None:
    # More queries than a pipe holds bytes: the pacer must not wait for the reader.
    queries = 100_000
    with PacerProcess(np.zeros(queries, np.int64), MARGIN_NS) as paced:
        paced.start()
        while paced.issued < queries:
            time.sleep(0.01)
        assert sum(1 for _ in paced) == queries


def test_an_origin_in_the_past_makes_queries_late_and_moves_none() -> None:
    due_ns = np.array([0, 10**6], np.int64)
    origin_ns = time.monotonic_ns() - 10**9
    with PacerProcess(due_ns, MARGIN_NS) as paced:
        assert paced.start(origin_ns) == origin_ns
        assert len(list(paced)) == 2
    assert lateness_ns(due_ns, paced.issued_ns(), origin_ns).min() > 9 * 10**8


def test_a_stop_ends_the_iteration() -> None:
    with PacerProcess(FAR_NS, MARGIN_NS) as paced:
        paced.start()
        queries = iter(paced)
        assert next(queries)[0] == 0
        paced.stop()
        assert list(queries) == []
    assert paced.issued_ns().size == 1


@pytest.mark.parametrize("entered_only", [True, False])
def test_leaving_ends_the_child(entered_only: bool) -> None:
    with PacerProcess(FAR_NS, MARGIN_NS) as paced:
        child = _child(paced)
        if not entered_only:
            paced.start()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_killed_child_is_told_with_how_far_it_came() -> None:
    with PacerProcess(FAR_NS, MARGIN_NS) as paced:
        paced.start()
        queries = iter(paced)
        next(queries)
        os.kill(_child(paced), signal.SIGKILL)
        with pytest.raises(PacerDied) as died:
            next(queries)
    assert (died.value.issued, died.value.queries) == (1, 2)
    assert died.value.exit_code == -signal.SIGKILL


def test_a_child_dead_before_the_start_is_told() -> None:
    with PacerProcess(FAR_NS, MARGIN_NS) as paced:
        os.kill(_child(paced), signal.SIGKILL)
        # Until it is dead, it could still read that it may start.
        os.waitid(os.P_PID, _child(paced), os.WEXITED | os.WNOWAIT)
        with pytest.raises(PacerDied):
            paced.start()


def test_a_child_that_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "__file__", "/nowhere.py")
    with PacerProcess(FAR_NS, MARGIN_NS) as paced, pytest.raises(PacerDied, match="nowhere"):
        paced.start()


def test_a_frozen_child_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "SILENCE_S", 0.2)
    monkeypatch.setattr(pacer, "STOP_TIMEOUT_S", 0.1)
    with PacerProcess(np.array([0, 10**8], np.int64), MARGIN_NS) as paced:
        paced.start()
        queries = iter(paced)
        next(queries)
        os.kill(_child(paced), signal.SIGSTOP)
        with pytest.raises(PacerDied, match="stopped responding") as died:
            next(queries)
    assert died.value.exit_code is None


def test_a_dead_parent_takes_its_pacer_along() -> None:
    source = (
        "import os, sys, numpy as np\n"
        "from mlscope.load.pacer import PacerProcess\n"
        "paced = PacerProcess(np.array([0, 10**13]), 100_000).__enter__()\n"
        "paced.start()\n"
        "print(paced._running().pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    child = int(parent.stdout)
    _until(lambda: not _alive(child))


@pytest.mark.parametrize("raised", [True, False])
def test_its_priority_is_what_it_says(raised: bool) -> None:
    with PacerProcess(FAR_NS, MARGIN_NS, raised) as paced:
        paced.start()
        real_time = os.sched_getscheduler(_child(paced)) == os.SCHED_FIFO
        nice = os.getpriority(os.PRIO_PROCESS, _child(paced)) == -20
        assert (paced.priority == "fifo") == real_time
        assert (paced.priority == "nice") == nice
    assert raised or paced.priority == "normal"


def test_on_a_single_core_it_does_not_go_before_what_it_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert issuing.raise_priority() == 0


def test_without_the_right_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "setpriority", refuse)
    assert issuing.raise_priority() == 0


def test_waiting_for_a_query_does_not_spin() -> None:
    due_ns = np.array([0, 3 * 10**8], np.int64)
    with PacerProcess(due_ns, MARGIN_NS) as paced:
        paced.start()
        before_s = time.thread_time()
        assert len(list(paced)) == 2
        assert time.thread_time() - before_s < 0.1


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("waited 10 s in vain")
