"""One request, answered by three agents of three frameworks."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlscope.reproducing.difference import SAME
from tests.flow.clusters import Cluster, assert_well, until
from tests.flow.frameworks import FRAMEWORKS, written_model

pytestmark = pytest.mark.timeout(180)

AGENTS = {f"{name}-alone": name for name in FRAMEWORKS}


@pytest.fixture(scope="module", autouse=True)
def agents(cluster: Cluster) -> Iterator[None]:
    """Lend an agent for each framework alone."""
    started = [
        cluster.service("agent", MLSCOPE_AGENT_ID=agent, MLSCOPE_AGENT_PREDICTORS=name)
        for agent, name in AGENTS.items()
    ]
    with cluster.client() as client:

        def unknown_agents() -> list[str]:
            matched = client.match("identity", agents=list(AGENTS))
            return [own.agent for own in matched.reasons if own.reason == "is not known here"]

        until(lambda: not unknown_agents(), 60.0)
    yield
    for process in started:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(20) for process in started] == [0] * len(started)
    assert_well(cluster)


@pytest.fixture(scope="module")
def evaluated(
    cluster: Cluster, agents: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return what a run on the three agents prints."""
    path = written_model(tmp_path_factory.mktemp("three"))
    arguments = ["--all-agents", "--scenario", "online:queries=6", "--wait", "20", "-o", "json"]
    arguments += [argument for agent in AGENTS for argument in ("--agent", agent)]
    printed: dict[str, Any] = json.loads(cluster.mlscope("run", str(path), *arguments, timeout=100))
    return printed


def rows(evaluated: dict[str, Any], table: str) -> list[dict[str, Any]]:
    """Return the rows of a table that a run prints."""
    (table_,) = [own for own in evaluated["tables"] if own["name"] == table]
    names = [column["name"] for column in table_["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table_["rows"]]


def test_each_agent_answers_on_its_framework(evaluated: dict[str, Any]) -> None:
    runs = evaluated["status"]["runs"]
    assert {run["agent"]: run["framework"].split()[0] for run in runs} == AGENTS
    assert [(run["state"], run["answered"], run["failed_queries"]) for run in runs] == [
        ("recorded", 6, 0)
    ] * 3
    assert [name.split()[0] for name in evaluated["status"]["framework"].split(", ")] == [
        *FRAMEWORKS
    ]
    assert {run["run"] for run in runs} == {
        f"{agent}-{name}-b1-online-model" for agent, name in AGENTS.items()
    }


def test_the_database_has_the_framework_of_each_run(
    cluster: Cluster, evaluated: dict[str, Any]
) -> None:
    statement = "SELECT agent, framework, framework_version <> '' FROM run WHERE evaluation = %s"
    stored = cluster.rows(statement, evaluated["status"]["evaluation"])
    assert sorted(stored) == sorted((agent, name, True) for agent, name in AGENTS.items())


def test_all_frameworks_give_the_same_answers(cluster: Cluster, evaluated: dict[str, Any]) -> None:
    evaluation = evaluated["status"]["evaluation"]
    with cluster.client() as client:
        predictions = client.predictions(evaluation).predictions
    answers = {
        run["agent"]: {own.sample: own.features for own in predictions if own.run == run["run"]}
        for run in evaluated["status"]["runs"]
    }
    assert [len(own) for own in answers.values()] == [6, 6, 6]
    first, second, third = answers.values()
    assert first == second == third


@pytest.mark.long
def test_it_is_repeated_on_the_same_frameworks(
    cluster: Cluster, evaluated: dict[str, Any], tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    cluster.mlscope("export", evaluated["status"]["evaluation"], "--out", str(log))
    arguments = [argument for agent in AGENTS for argument in ("--agent", agent)]
    answer = json.loads(
        cluster.mlscope("reproduce", str(log), *arguments, "-o", "json", timeout=100)
    )
    assert answer["predictions"] == SAME
