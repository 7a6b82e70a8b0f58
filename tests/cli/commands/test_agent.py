"""`mlscope agent --plan`: what the machine's owner set holds there as it does with a broker."""

import os
import subprocess
import sys
from pathlib import Path

from schemas.plan import OfflinePlan, Plan
from tests.services.agent.builders import SLEEPY, a_run, a_sleepy_subject, an_order

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 400 << 20


def a_greedy_plan(queries: int, takes_bytes: int) -> OfflinePlan:
    """Return a plan whose model takes so much memory while it predicts."""
    subject = a_sleepy_subject(predict_ms=20, takes_bytes=takes_bytes)
    order = an_order(subject, (a_run(queries=queries),))
    return OfflinePlan(evaluation="e1", plan=Plan(subject=subject, sessions=(order.session,)))


def done(plan: OfflinePlan, folder: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a plan as a user does."""
    (folder / "plan.json").write_text(plan.model_dump_json())
    paths = os.pathsep.join(str(each) for each in (ROOT, SLEEPY))
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "agent", "--plan", "plan.json", "--out", "b"],
        env={**os.environ, "PYTHONPATH": paths, **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_worker_is_held_to_the_memory_its_owner_allows(tmp_path: Path) -> None:
    bound = {"MLSCOPE_WORKER_MEMORY_BYTES": str(MOST_BYTES)}
    ended = done(a_greedy_plan(10_000, MOST_BYTES), tmp_path, **bound)
    assert ended.returncode == 1, ended.stderr
    assert "r0 failed: memory: the worker used" in ended.stderr
    assert f"it may use {MOST_BYTES}" in ended.stderr
    assert "1 run, 1 failed" in ended.stdout


def test_without_a_bound_it_is_left_alone(tmp_path: Path) -> None:
    ended = done(a_greedy_plan(20, MOST_BYTES), tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "1 run, 0 failed" in ended.stdout
