"""A survey's time: a step that it cuts off is left to be done, and every run knows what is left."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.survey import bounds, counts, listed, measuring
from benchmarks.survey.__main__ import main
from benchmarks.survey.bounds import NO_BOUND, Bound, TimeIsUp
from benchmarks.survey.listed import Listed
from schemas.level import Level
from schemas.plan import OfflinePlan, Subject
from schemas.run import Ceiling, RunCompleted
from services.agent.host.roofs import keeping
from services.agent.link.messages import Outcome
from services.agent.machine.roofline.ceilings import Roof
from services.agent.worker.group import Group

ONE = {0: Ceiling(measured=2.0, method="told")}


@cache
def subject() -> Subject:
    return Listed("tiny-cnn").subject("cpu")


def plan(level: Level = Level.MODEL) -> OfflinePlan:
    return measuring.plan_of(subject(), [1, 2], 3, [level])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times that bounds see in turn, the last one for good."""
    times = [0.0]
    told = chain(iter(times), repeat(1e9))
    monkeypatch.setattr(bounds, "time", SimpleNamespace(monotonic=lambda: next(told)))
    return times


def test_a_step_that_is_under_way_when_the_time_is_up_is_left(tmp_path: Path) -> None:
    asked = ("--device", "cpu", "--models", "tiny-cnn", "--batch-sizes", "1")
    # Less than a worker's start takes anywhere.
    assert main([str(tmp_path), "sweep", *asked, "--seconds", "0.2"]) == 1
    assert set(json.loads((tmp_path / "state.json").read_text())) == {"survey"}


def test_every_run_has_what_is_left_for_its_time_out() -> None:
    runs = [run for each in Bound.after(50.0).on(plan()).plan.sessions for run in each.runs]
    assert len(runs) == 2
    assert all(0 < run.timeout_s <= 50.0 for run in runs)
    unbound = NO_BOUND.on(plan()).plan.sessions
    assert [run.timeout_s for each in unbound for run in each.runs] == [600.0, 600.0]


@pytest.mark.long
def test_no_session_begins_and_no_fact_is_kept_after_it(tmp_path: Path, clock: list[float]) -> None:
    clock += [0.0] * 5  # the two runs' time-outs, and the first facts
    with pytest.raises(TimeIsUp):
        listed.measure(plan(), tmp_path / "cut.bundle", Bound(1.0))
    assert not (tmp_path / "cut.bundle").exists()


@pytest.mark.long
def test_a_run_that_was_cut_off_is_no_result(tmp_path: Path) -> None:
    endless = measuring.plan_of(subject(), [1], 10**6, [Level.MODEL])
    with pytest.raises(TimeIsUp):
        measuring.measure(endless, tmp_path / "endless.bundle", Bound.after(3.0))


@pytest.mark.long
def test_queries_are_issued_from_the_core_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable, seen = os.sched_getaffinity(0), []
    perform = Group.perform

    def noted(group: Group) -> Iterator[Outcome]:
        seen.append(os.sched_getaffinity(0))
        yield from perform(group)

    monkeypatch.setattr(Group, "perform", noted)
    measuring.measure(plan(), tmp_path / "pinned.bundle", core=min(usable))
    measuring.measure(plan(), tmp_path / "anywhere.bundle")
    assert {*map(frozenset, seen)} == {frozenset({min(usable)}), frozenset(usable)}
    assert os.sched_getaffinity(0) == usable


def sleeping(*_: Path) -> Sequence[str]:
    return (sys.executable, "-c", "import time; time.sleep(20); print('whole')")


@pytest.mark.long
def test_counting_ends_with_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "command_of", sleeping)
    monkeypatch.setattr(counts, "OPENING_S", 0.5)
    said = counts.run(tmp_path, 0, [("net", 8)], 2.0)
    assert "whole" not in said
    assert json.loads((tmp_path / "counts-0.json").read_text())["seconds"] == 1.5
    with pytest.raises(TimeIsUp):
        counts.run(tmp_path, 0, [("net", 8)], 0.4)


@pytest.mark.long
def test_runs_of_layers_are_told_their_devices_roof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    async def measure(*asked: object) -> Roof:
        measured.append(asked)
        return Roof("cpu", "C", {"float32": ONE}, ONE)

    async def is_quiet(_: object) -> bool:
        return False  # where it is quiet, a second start measures the roof again

    monkeypatch.setattr(keeping, "measure_in_process", measure)
    monkeypatch.setattr(keeping, "device_is_quiet", is_quiet)
    paths = (tmp_path / "one.bundle", tmp_path / "two.bundle")
    outcomes = [o for path in paths for o in measuring.measure(plan(Level.FRAMEWORK), path)]
    told = [each.conditions.peak_flops for each in outcomes if isinstance(each, RunCompleted)]
    assert [each.measured for each in told if each is not None] == [2.0] * 4
    assert len(measured) == 1
