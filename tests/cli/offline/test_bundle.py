"""A bundle is checked whole, then read fact by fact: what it holds never is in memory at once."""

import tracemalloc
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from cli.offline.bundle import Bundle, read
from mlscope.exchange.bundle import BundleWriter
from mlscope.exchange.errors import BundleBroken
from schemas.agent import AgentAnnounced, Announcement, Hardware
from schemas.batch import TraceCaptured
from schemas.evaluation import EvaluationPlanned
from schemas.message import Fact
from schemas.run import RunCompleted
from tests.stories import AGENT, E, a_plan, a_run, spans

MIB = 1 << 20


def beginning() -> Sequence[Fact]:
    announced = Announcement(
        agent=AGENT, incarnation="i", hardware=Hardware(hostname="h", architecture="x"), runtimes=()
    )
    return (
        EvaluationPlanned(evaluation=E, plan=a_plan()),
        AgentAnnounced(agent=AGENT, announcement=announced),
    )


def batch(sequence: int, *, run: str = "r0", size_bytes: int = 8) -> TraceCaptured:
    column = {"start_ns": bytes(size_bytes)}
    return spans(1, run=run, sequence=sequence).model_copy(update=column)


async def written(path: Path, *facts: Fact) -> Path:
    numbers = count()
    with BundleWriter(path) as bundle:
        for fact in (*beginning(), *facts):
            await bundle.put(fact, id=f"i{next(numbers)}", cause="c")
    return path


@pytest.fixture
async def bundle(tmp_path: Path) -> Bundle:
    mixed = [batch(n, run=run) for n in range(3) for run in ("r0", "r1")]
    ends = [a_run(run)[1] for run in ("r1", "r0")]
    return read(await written(tmp_path / "b", *mixed, *ends))


def test_a_run_has_its_own_facts_in_the_order_they_came(bundle: Bundle) -> None:
    for run in ("r0", "r1"):
        *batches, end = bundle.facts(run)
        assert [fact.run for fact in batches if isinstance(fact, TraceCaptured)] == [run] * 3
        assert [fact.sequence for fact in batches if isinstance(fact, TraceCaptured)] == [0, 1, 2]
        assert isinstance(end, RunCompleted)
        assert end.run == run
    assert (bundle.name, bundle.evaluation, bundle.agent) == ("b", E, AGENT)


def test_what_was_not_measured_has_no_facts(bundle: Bundle) -> None:
    assert bundle.holds("r0")
    assert not bundle.holds("r9")
    assert list(bundle.facts("r9")) == []


async def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = await written(tmp_path / "b", *(batch(n, size_bytes=MIB) for n in range(32)))
    tracemalloc.start()
    try:
        bundle = read(path)
        assert sum(1 for _ in bundle.facts("r0")) == 32
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 32 * MIB
    assert most_bytes < 8 * MIB


def test_a_bundle_that_is_cut_while_it_is_read_says_so(bundle: Bundle) -> None:
    facts = bundle.facts("r0")
    next(facts)
    with bundle.path.open("r+b") as file:
        file.truncate(bundle.path.stat().st_size - 100)
    with pytest.raises(BundleBroken, match="was changed while it was imported"):
        next(facts)


def test_a_bundle_that_goes_away_says_so(bundle: Bundle) -> None:
    bundle.path.unlink()
    with pytest.raises(BundleBroken, match="No such file"):
        next(bundle.facts("r0"))


async def test_without_a_plan_it_is_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with BundleWriter(path) as bundle:
        await bundle.put(batch(0), id="i", cause="c")
    with pytest.raises(BundleBroken, match="the plan of exactly one machine"):
        read(path)


async def test_a_cut_one_is_refused_before_anything_is_known_of_it(bundle: Bundle) -> None:
    whole = bundle.path.read_bytes()
    for keep in range(0, len(whole), 97):
        bundle.path.write_bytes(whole[:keep])
        with pytest.raises(BundleBroken, match=r"cut short|not a bundle|checksum"):
            read(bundle.path)
