"""Rows of evaluations, models and agents: complete for programs, short for a terminal."""

from dataclasses import replace
from typing import Any

import pytest

from cli.printing.catalog import (
    KINDS,
    TERMINAL_ROWS,
    agent_terminal_rows,
    catalog_rows,
    described_terminal_rows,
    evaluation_rows,
    evaluation_terminal_rows,
    model_terminal_rows,
)
from cli.printing.output import Rows, table_lines
from mlscope.evaluation.status import unrequested_status
from schemas.agent import Announcement
from schemas.manifest import ScenarioManifest
from schemas.status import AgentStatus, Catalog
from tests.services.scheduler.samples import an_agent
from tests.stories import a_model

E1 = "00000000000000e1"


def test_a_models_figures_are_plain_numbers_and_short_to_people() -> None:
    told = {"attributes": {"parameters": 4_652_008, "top1": 74.83, "training_dataset": "D"}}
    model = a_model().model_copy(update=told)
    rows = catalog_rows(Catalog(models=(model,)), "models")
    record = rows.maps()[0]
    said = (record["parameters"], record["accuracy"], record["metric"])
    assert said == (4_652_008, 74.83, "top-1 on D")
    shown = table_lines(model_terminal_rows(rows), fit=80)
    columns = " ".join(shown[1].split())
    assert columns == "tiny 1.0.0 onnxruntime 74.83% 4.65 M \N{EN DASH}"


def test_a_description_is_one_sentence_on_a_terminal() -> None:
    first, rest = "One query at a time, e.g. of a user (MLPerf's).", "A closed loop. No queue."
    scenario = ScenarioManifest(
        name="online", version="1.0.0", description=f"{first} {rest}", parameters={"queries": 50}
    )
    rows = catalog_rows(Catalog(scenarios=(scenario,)), "scenarios")
    assert rows.maps()[0]["description"] == f"{first} {rest}"
    lines = table_lines(described_terminal_rows(rows))
    assert lines[1].split(maxsplit=3) == ["online", "1.0.0", "queries=50", first]
    narrow = table_lines(replace(described_terminal_rows(rows), folds=True), fit=60)
    assert max(map(len, narrow)) <= 60
    assert set(first.split()) <= set(" ".join(narrow).split())


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_without_entries_has_headings_on_a_terminal(kind: str) -> None:
    assert TERMINAL_ROWS[kind](catalog_rows(Catalog(), kind)).columns


def test_evaluations_fit_a_terminal_word_by_word() -> None:
    more = {"model": "efficientnet-lite0:1.0.0", "framework": "onnxruntime 1.31.1"}
    status = unrequested_status(E1).model_copy(
        update={**more, "state": "analyzed", "agents": ("vm",)}
    )
    rows = evaluation_rows([status.model_copy(update={"requested_ns": 1_795_226_400 * 10**9})])
    assert rows.maps()[0]["requested"] == "2026-11-21T02:00:00Z"
    lines = table_lines(evaluation_terminal_rows(rows), fit=80)
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {E1, "efficientnet-lite0:1.0.0", "onnxruntime", "2026-11-21", "02:00:00"} <= set(words)


SHARES: dict[str, Any] = {"host_cores": 64, "host_memory_bytes": 1 << 40}


def agent_rows(labels: dict[str, str] | None = None, **hardware: object) -> Rows:
    machine = {"hostname": "h", "architecture": "amd64", "cores": 2, "memory_bytes": 1 << 30}
    frameworks = ("jax", "litert", "onnxruntime", "openvino", "pytorch", "tensorflow")
    said = {
        "agent": "local-1",
        "incarnation": "i1",
        "hardware": machine | hardware,
        "runtimes": [{"framework": each, "version": "2.20.1"} for each in frameworks],
        "labels": labels or {},
    }
    status = AgentStatus.model_validate({"announcement": said})
    return catalog_rows(Catalog(agents=(status,)), "agents")


@pytest.mark.parametrize("fit", [80, 60])
def test_agents_fit_a_terminal_and_nothing_of_them_is_cut(fit: int) -> None:
    rows = agent_rows(cpu_model="Intel(R) Xeon(R) Processor @ 2.70GHz", **SHARES)
    lines = table_lines(agent_terminal_rows(rows), fit=fit)
    assert max(map(len, lines)) <= fit
    assert "tensorflow:2.20.1" in "".join(lines) or fit < 80
    assert {"local-1", "64", "1.1", "TB", "Intel(R)"} <= set("\n".join(lines).split())
    assert max(map(len, table_lines(agent_terminal_rows(rows)))) <= 120


def test_an_agents_share_is_said_once_when_it_is_the_host() -> None:
    rows = agent_terminal_rows(agent_rows({"rack": "7"}))
    record = dict(zip(rows.columns, rows.rows[0], strict=True))
    assert (record["cores"], record["memory"]) == ("2", "1.07 GB")
    assert record["labels"] == "rack=7"
    assert "accelerators" not in record
    assert "labels" not in agent_terminal_rows(agent_rows()).columns


def test_an_agent_is_listed_with_its_share_of_the_host() -> None:
    listed = []
    for rows in (agent_rows(), agent_rows(**SHARES)):
        record = dict(zip(rows.columns, rows.rows[0], strict=True))
        listed.append([record[name] for name in ("cores", "host_cores", "memory", "host_memory")])
    assert listed[0][:2] == [2, None]
    assert listed[1][:2] == [2, 64]
    assert listed[0][2] == listed[1][2] != listed[1][3]


def test_agents_that_start_containers_say_with_which_images() -> None:
    images = ({"image": "own:1"}, {"image": "own:2", "reason": "is not on this machine"})
    known = an_agent().announcement.model_dump() | {"containers": images}
    status = AgentStatus(announcement=Announcement.model_validate(known), state="live")
    rows = catalog_rows(Catalog(agents=(status,)), "agents")
    assert rows.maps()[0]["containers"] == "own:1"
    assert "own:1" in "\n".join(table_lines(agent_terminal_rows(rows)))
