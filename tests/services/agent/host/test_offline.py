"""A plan on a machine without broker or database."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from schemas.batch import TraceCaptured
from schemas.encoding.codec import decode
from schemas.message import Fact
from schemas.plan import OfflinePlan, Plan, RunPlan
from schemas.run import RunCompleted, RunFailed
from services.agent.host.offline import OfflineResources, orders_of, read_bundle, run_plan
from services.agent.link.allowances import Allowances, InlineLimits
from tests.seccomp import needs_filter
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    a_run,
    a_sleepy_subject,
    a_subject,
    an_order,
)

pytestmark = pytest.mark.usefixtures("forked_workers")
ROOT = MANIFESTS.parent
RUNS = (
    a_run("m", level="model"),
    a_run("l", level="application"),
    a_run("p", scenario="poisson", pacing="remote", rate_hz=200, group=1),
)
LAYERS = a_run("l", level="framework")
"""A run before which the machine's roof is measured, for a second."""

BLOCKER = """
import importlib.abc, sys

ALLOWED = {"numpy", "msgpack", "yaml", "_yaml", "pydantic", "pydantic_core", "annotated_types",
    "typing_extensions", "typing_inspection", "schemas", "mlscope", "services", "manifests",
    "onnxruntime", "sleepy_predictor"}

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in sys.stdlib_module_names or root in ALLOWED or root.startswith("_"):
            return None
        raise ImportError(f"{name} is not there on a borrowed machine")

sys.meta_path.insert(0, Blocker())
"""
"""Every interpreter of the test loads this as its `sitecustomize`, the worker's too."""

ALONE = """
import sys
from pathlib import Path
from schemas.plan import OfflinePlan
from services.agent.host.offline import run_plan

plan = OfflinePlan.model_validate_json(Path(sys.argv[1]).read_text())
print([type(outcome).__name__ for outcome in run_plan(plan, Path(sys.argv[2]))])
"""


def a_plan(framework: str = "onnxruntime", runs: Sequence[RunPlan] = RUNS) -> OfflinePlan:
    subject = a_subject("tiny_cnn", "noise32") if framework != "sleepy" else a_sleepy_subject()
    order = an_order(subject, runs)
    return OfflinePlan(evaluation="e1", plan=Plan(subject=order.subject, sessions=(order.session,)))


def facts_in(path: Path) -> list[Fact]:
    return [decode(body)[1] for body in read_bundle(path)]


def test_a_plan_becomes_a_bundle_of_the_same_facts(tmp_path: Path) -> None:
    told: list[Fact] = []
    plan = a_plan(runs=(RUNS[0], LAYERS, RUNS[2]))
    outcomes = run_plan(plan, tmp_path / "b", on_fact=told.append)
    assert [type(outcome) for outcome in outcomes] == [RunCompleted] * 3
    facts = facts_in(tmp_path / "b")
    assert facts == told
    ids = [decode(body)[0].id for body in read_bundle(tmp_path / "b")]
    assert len(set(ids)) == len(ids)
    names = [fact.schema_name() for fact in facts]
    assert names[:4] == ["evaluation.planned", "agent.announced", *["evaluation.started"] * 2]
    assert names.count("run.completed") == 3
    assert outcomes[2].tally.query_batches > 0
    assert [each.conditions.peak_flops is None for each in outcomes] == [True, False, True]


def test_groups_are_done_one_after_the_other() -> None:
    plan = a_plan()
    orders = list(orders_of(plan, plan.plan.sessions[0]))
    assert [order.runs for order in orders] == [("m", "l"), ("p",)]
    assert {run.pacing for order in orders for run in order.session.runs} == {"local"}


@pytest.mark.parametrize(
    "framework", ["onnxruntime", pytest.param("sleepy", marks=pytest.mark.long)]
)
def test_it_runs_without_broker_and_database(tmp_path: Path, framework: str) -> None:
    plan = a_plan(framework, (RUNS[0], LAYERS, RUNS[2]))
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    paths = {"PYTHONPATH": os.pathsep.join(str(each) for each in (tmp_path, ROOT, SLEEPY))}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "plan.json"), str(tmp_path / "b")],
        env={**os.environ, **paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(["RunCompleted"] * 3), done.stderr
    assert len(facts_in(tmp_path / "b")) > 10


def test_a_plan_that_can_t_be_done_says_so(tmp_path: Path) -> None:
    plan = a_plan()
    subject = plan.plan.subject.model_copy(update={"framework": "caffe"})
    plan = plan.model_copy(update={"plan": plan.plan.model_copy(update={"subject": subject})})
    outcomes = run_plan(plan, tmp_path / "b")
    assert [outcome.run for outcome in outcomes] == ["m", "l", "p"]
    assert all(not isinstance(outcome, RunCompleted) for outcome in outcomes)


@needs_filter
def test_a_plan_without_a_cluster_starts_no_container(tmp_path: Path) -> None:
    plan = a_plan()
    subject = plan.plan.subject.model_copy(update={"container": "mlscope:1"})
    inner = plan.plan.model_copy(update={"subject": subject})
    outcomes = run_plan(plan.model_copy(update={"plan": inner}), tmp_path / "b")
    messages = {outcome.message for outcome in outcomes if isinstance(outcome, RunFailed)}
    assert messages == {"container mlscope:1: a plan without a cluster starts none"}


def test_code_runs_where_it_is_allowed_alone(tmp_path: Path) -> None:
    order = an_order(a_subject("tiny_cnn", "noise32"), RUNS)
    code = "def fun(env, data):\n    return data * 2\n"
    model = order.subject.model.model_copy(update={"preprocess": code})
    ports = tuple(port.model_copy(update={"steps": ()}) for port in model.inputs)
    model = model.model_copy(update={"inputs": ports})
    subject = order.subject.model_copy(update={"model": model})
    plan = OfflinePlan(evaluation="e1", plan=Plan(subject=subject, sessions=(order.session,)))
    refused = run_plan(plan, tmp_path / "refused")
    assert {each.error for each in refused if isinstance(each, RunFailed)} == {"inline"}
    assert len(refused) == 3
    allowed = Allowances(inline=InlineLimits(timeout_s=30.0, cpu_s=30))
    outcomes = run_plan(plan, tmp_path / "b", OfflineResources(allowances=allowed))
    assert [type(each) for each in outcomes] == [RunCompleted] * 3


def test_a_bundle_that_can_t_be_written_is_an_os_error_and_leaves_no_worker(
    tmp_path: Path,
) -> None:
    def full(fact: Fact) -> None:
        if isinstance(fact, TraceCaptured):
            raise OSError(28, "No space left on device")

    before = children()
    with pytest.raises(OSError, match="No space left"):
        run_plan(a_plan(), tmp_path / "b", on_fact=full)
    assert not (tmp_path / "b").exists()
    assert children() == before


def children() -> str:
    """Return the processes that this thread started and that were not waited for."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()
