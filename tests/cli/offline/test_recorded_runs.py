"""Which recorded run answers for a planned one: the one with its parameters, if it is certain."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from cli.failures import Misused
from cli.offline.bundle import Bundle
from cli.offline.recorded_runs import RecordedRuns
from schemas.level import Level
from schemas.plan import Plan, RunPlan, SessionPlan
from tests.stories import AGENT, a_plan


@dataclass(frozen=True)
class Held:
    """A bundle as far as its plan."""

    plan: Plan
    path: Path = Path("x.bundle")


def a_run(name: str, level: Level = Level.MODEL, **parameters: Any) -> RunPlan:
    return RunPlan(
        run=name, group=0, scenario="poisson", level=level, queries=5, parameters=parameters
    )


def a_session(*runs: RunPlan, **fields: Any) -> SessionPlan:
    plain = {"session": "s0", "agent": AGENT, "batch_size": 1}
    return SessionPlan(**{**plain, **fields}, runs=runs)


def recorded(*sessions: SessionPlan) -> RecordedRuns:
    held = Held(a_plan().model_copy(update={"sessions": sessions}))
    return RecordedRuns(cast("Bundle", held))


def test_equal_parameters_match_before_a_part_of_them() -> None:
    runs = recorded(a_session(a_run("slow", rate_hz=1), a_run("fast", rate_hz=1, queries=9)))
    planned = a_session(a_run("p", queries=9, rate_hz=1))
    assert runs.names_of(planned) == {"p": "fast"}


def test_a_part_of_the_planned_parameters_matches_if_only_one_does() -> None:
    runs = recorded(a_session(a_run("first", rate_hz=1), a_run("second", queries=9)))
    assert runs.names_of(a_session(a_run("p", rate_hz=1, seed=7))) == {"p": "first"}
    assert runs.names_of(a_session(a_run("p", rate_hz=1, queries=9))) == {"p": ""}
    assert runs.names_of(a_session(a_run("p", seed=7))) == {"p": ""}


@pytest.mark.parametrize(
    "session",
    [
        a_session(a_run("p"), batch_size=2),
        a_session(a_run("p"), variant="serialised"),
        a_session(a_run("p", Level.FRAMEWORK)),
        a_session(a_run("p").model_copy(update={"group": 1})),
        a_session(a_run("p").model_copy(update={"scenario": "online"})),
    ],
    ids=["batch size", "variant", "level", "group", "scenario"],
)
def test_a_run_of_another_kind_does_not_match(session: SessionPlan) -> None:
    runs = recorded(a_session(a_run("r0")))
    assert runs.names_of(session) == {"p": ""}
    assert runs.names_of(a_session(a_run("p"), session="s7")) == {"p": "r0"}


def test_each_cold_start_has_its_own_session() -> None:
    cold = [a_session(a_run(name), session=name, variant="cold") for name in ("c0", "c1")]
    runs = recorded(*cold)
    assert runs.names_of(a_session(a_run("p"), session="c1", variant="cold")) == {"p": "c1"}
    with pytest.raises(Misused, match=r"^x\.bundle: runs r0 and r1 cannot be distinguished$"):
        recorded(a_session(a_run("r0")), a_session(a_run("r1"), session="s1"))
