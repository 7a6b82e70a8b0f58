"""What `make test-gpu` asks for, planned for an H200's machine as it announced itself."""

import pytest

from cli.offline.bundle import read
from schemas.agent import Announcement
from schemas.level import Level
from schemas.plan import Plan
from tests.gpu.plans import AGENT, ALLOWED, WISHES
from tests.gpu.recordings import recorded_bundle

MODEL, LAYERS, CALLS, KERNELS = "model", "framework", "library", "system"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Announcement:
    path = recorded_bundle("library", tmp_path_factory.mktemp("library"))
    told = read(path).announcement
    return told.model_copy(update={"agent": AGENT, "builders": tuple(ALLOWED.builders)})


def runs_of(plan: Plan) -> dict[str, list[str]]:
    return {each.session: [run.run for run in each.runs] for each in plan.sessions}


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("library", [MODEL, LAYERS, CALLS, KERNELS]),
        ("jax", [MODEL, LAYERS, CALLS, KERNELS]),
        ("graph", [MODEL, LAYERS, KERNELS]),
        ("compiled", [MODEL, LAYERS, KERNELS]),
    ],
)
def test_a_level_runs_those_below_it(name: str, levels: list[str], machine: Announcement) -> None:
    plan = WISHES[name].plan(machine).plan
    assert plan.subject.device == "gpu"
    assert runs_of(plan) == {"b4": [f"b4-online-{level}" for level in levels]}


@pytest.mark.parametrize(
    ("name", "size", "levels"),
    [
        ("resnet50-full", 8, [MODEL, LAYERS, CALLS, "full"]),
        ("detector", 1, [MODEL, LAYERS, "full"]),
        ("vit-b-16", 1, [MODEL, LAYERS, "full"]),
    ],
)
def test_level_full_counts_in_a_session_of_its_own(
    name: str, size: int, levels: list[str], machine: Announcement
) -> None:
    wish = WISHES[name]
    plan = wish.plan(machine).plan
    counted = wish.run(Level.HARDWARE, "counters")
    assert runs_of(plan) == {
        f"b{size}": [f"b{size}-online-{level}" for level in levels],
        f"b{size}-counters": [counted],
    }
    assert [each.variant for each in plan.sessions] == ["", "counters"]


def test_a_serialised_session_is_beside_the_plain_one(machine: Announcement) -> None:
    wish = WISHES["serialised"]
    plan = wish.plan(machine).plan
    plain, blocking = plan.sessions
    assert (plain.variant, blocking.variant) == ("", "serialised")
    assert [run.run for run in blocking.runs] == [wish.run(Level.SYSTEM, "serialised")]


def test_each_opening_is_a_session_a_level(machine: Announcement) -> None:
    plan = WISHES["cold"].plan(machine).plan
    assert {each.variant for each in plan.sessions} == {"cold"}
    sessions = [f"b1-cold{one}-{level}" for level in (MODEL, LAYERS, KERNELS) for one in (0, 1)]
    assert runs_of(plan) == {each: [f"{each}-first", f"{each}-warm"] for each in sessions}
    first, warm = plan.sessions[0].runs
    assert (first.parameters, warm.queries) == ({"queries": 1, "warm": 5}, 5)


def test_what_a_machine_has_not_is_said(machine: Announcement) -> None:
    with pytest.raises(AssertionError, match="wanted tensorflow"):
        WISHES["tensorflow"].plan(machine)
