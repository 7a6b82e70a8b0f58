"""The host's roof: what is measured, by how many threads."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from services.agent.host.process import worker_environment
from services.agent.machine.quotas import usable_cores
from services.agent.machine.roofline import host_roof
from services.agent.machine.roofline.ceilings import Roof
from services.agent.machine.roofline.host_arithmetic import INSTRUCTIONS


@pytest.fixture(scope="module")
def found() -> Roof:
    """Measure this machine's roof as an agent does, in a process of its own."""
    command = [sys.executable, "-m", "services.agent.machine.roofline.host_roof"]
    written = subprocess.check_output(command, env=worker_environment(), timeout=60)
    return Roof.from_dict(json.loads(written))


def test_the_roof_is_measured_and_says_how(found: Roof) -> None:
    assert (found.kind, found.note) == ("cpu", "")
    counts = list(host_roof.thread_counts(usable_cores()))
    assert list(found.peaks["float32"]) == list(found.bandwidths) == counts
    told = [*found.peaks["float32"].values(), *found.bandwidths.values()]
    # Any machine does a thousandth of a GFLOP and of a GB a second, none a million.
    assert all(1e6 < (each.measured or 0.0) < 1e15 for each in told)
    assert re.search(r"(256 x 256|512 x 512) on 1 threads", found.peaks["float32"][1].method)
    assert found.missing == dict.fromkeys(INSTRUCTIONS, host_roof.NOT_ASKED)


def test_each_ceiling_says_how_sure_it_is(found: Roof) -> None:
    told = [*found.peaks["float32"].values(), *found.bandwidths.values()]
    assert all(0.0 <= (each.uncertainty or 0.0) < 1.0 for each in told)
    assert all(0.0 <= (each.conditions["others"] or 0.0) <= 1.1 for each in told)
    assert all((each.measurements, each.disturbance) == (1, found.disturbance) for each in told)
    assert all(time.time_ns() - (each.measured_ns or 0) < 60e9 for each in told)


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6])])
def test_threads_are_doubled_up_to_all_cores(cores: int, counts: list[int]) -> None:
    assert list(host_roof.thread_counts(cores)) == counts


def test_the_peak_is_that_of_the_faster_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tries_s = iter([[0.5, 0.6], [0.4, 0.8]])
    monkeypatch.setattr(host_roof, "parallel_tries_s", lambda _: next(tries_s))
    monkeypatch.setattr(host_roof, "PRODUCTS", {8: 4, 16: 1})
    peak = host_roof.product_peak("float32", 1)
    assert peak.measured == 2 * 16**3 / 0.4
    assert peak.method.startswith("float32 products of 16 x 16 on 1 threads")


def test_threads_begin_each_try_together() -> None:
    order: list[str] = []
    tries_s = host_roof.parallel_tries_s([lambda: order.append("a"), lambda: order.append("b")])
    assert len(tries_s) == host_roof.TRIES
    rounds = [set(order[n : n + 2]) for n in range(0, len(order), 2)]
    assert rounds == [{"a", "b"}] * (host_roof.TRIES + 1)


def test_a_product_that_is_refused_leaves_the_other_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> None:
        raise RuntimeError("not implemented for 'BFloat16'\nC++ frames")

    monkeypatch.setattr(
        host_roof, "missing_reason", lambda name: "" if name == "bfloat16" else "no unit"
    )
    monkeypatch.setattr(
        host_roof, "products", lambda _precision, _size, threads: [refused] * threads
    )
    monkeypatch.setattr(host_roof, "PRODUCTS", {64: 1})
    found = host_roof.measure_host(2, low_precision=True)
    assert found.missing["bfloat16"] == (
        "PyTorch could not multiply them: not implemented for 'BFloat16'"
    )
    assert set(found.missing) == {*INSTRUCTIONS}
    assert set(found.peaks) == {"float32", "float64"}


def test_without_memory_it_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError("140 MB")

    monkeypatch.setattr(host_roof, "_ONE_THREAD", ())
    monkeypatch.setattr(np, "ones", none)
    with pytest.raises(SystemExit, match="no memory: 140 MB"):
        host_roof.main()
