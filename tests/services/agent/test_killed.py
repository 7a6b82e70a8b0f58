"""What is left of an agent, its worker and preparing processes once one of them is killed: nothing.

The agent is the real command with a plan, in the middle of a run whose samples are streamed.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from schemas.encoding.codec import decode
from schemas.plan import OfflinePlan, Plan
from schemas.run import RunFailed
from services.agent.host.offline import read_bundle
from tests.places import shared_files
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

LONG_S = 50.0
_ARENA = "/memfd:mlscope-preparation"

Value = TypeVar("Value")


class RunningAgent:
    """An agent that runs a plan, with the ids of its worker and of all its processes."""

    def __init__(self, process: subprocess.Popen[bytes], shared_before: set[str]) -> None:
        """Wait until its worker's pool has started; `shared_before` were files before it began."""
        self.process, self.shared_before = process, shared_before
        self.pids = until(self._pids_with_pool, bool)
        assert self.pids, "no pool was started"
        (self.worker,) = (pid for pid in self.pids if b"worker.worker" in read(pid, "cmdline"))
        self.arenas = arenas_of(self.worker)
        assert self.arenas

    def _pids_with_pool(self) -> list[int]:
        """Return the agent's and its descendants' ids once its worker's processes prepare."""
        assert self.process.poll() is None
        pids, generation = [self.process.pid], [self.process.pid]
        for _ in range(3):  # its worker, the process that others are forked from, and those
            generation = [child for pid in generation for child in children_of(pid)]
            pids += generation
        return pids if any(map(arenas_of, generation)) else []


def until(read_value: Callable[[], Value], is_good: Callable[[Value], bool]) -> Value:
    """Return a value once it is good, or the last one that was read."""
    until_s = time.monotonic() + LONG_S
    while not is_good(value := read_value()) and time.monotonic() < until_s:
        time.sleep(0.02)
    return value


def read(pid: int, name: str) -> bytes:
    """Return what the kernel says of a process; nothing of one that has ended, or isn't ours."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def children_of(pid: int) -> list[int]:
    """Return the processes that a process's threads started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in threads for child in path.read_text().split()]


def arenas_of(pid: int) -> set[int]:
    """Return the inodes of the memory in which a process prepares samples, mapped or open."""
    lines = read(pid, "maps").decode(errors="replace").splitlines()
    arenas = {int(line.split()[4]) for line in lines if _ARENA in line}
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if str(path.readlink()).startswith(_ARENA):
                arenas.add(path.stat().st_ino)
    return arenas


def running() -> set[int]:
    """Return the ids of all processes but those that have ended and wait for their parents."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    stats = {pid: read(pid, "stat").rpartition(b")")[2].split() for pid in pids}
    return {pid for pid, fields in stats.items() if fields and fields[0] != b"Z"}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return where the agent writes what it measured."""
    return tmp_path / "bundle"


def streaming_agent(folder: Path, bundle: Path, queries: int) -> list[str]:
    """Return a command that streams `queries` of photographs; its plan lies in a `folder`."""
    run = a_run(scenario="batched", queries=queries, concurrency=4, samples="streamed")
    order = an_order(a_subject("efficientnet_lite0", "photos"), [run], batch_size=2)
    plan = Plan(subject=order.subject, sessions=(order.session,))
    path = folder / "plan.json"
    path.write_text(OfflinePlan(evaluation="e1", plan=plan).model_dump_json())
    return [sys.executable, "-m", "cli.main", "agent", "--plan", str(path), "--out", str(bundle)]


@pytest.fixture
def agent(tmp_path: Path, bundle: Path) -> Iterator[RunningAgent]:
    """Start an agent with a plan that takes minutes."""
    command = streaming_agent(tmp_path, bundle, 20_000)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    root, shared_before = MANIFESTS.parent, shared_files()
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield RunningAgent(process, shared_before)
        finally:
            process.kill()


def assert_nothing_is_left(agent: RunningAgent) -> None:
    """Require the processes of an agent to end, and their memory to be given back."""
    assert not until(lambda: running().intersection(agent.pids), lambda pids: not pids)
    assert not [pid for pid in running() if arenas_of(pid) & agent.arenas]
    assert not until(lambda: shared_files() - agent.shared_before, lambda names: not names)


def test_nothing_outlives_a_killed_agent(agent: RunningAgent) -> None:
    agent.process.kill()
    agent.process.wait(LONG_S)
    assert_nothing_is_left(agent)


def test_nothing_outlives_a_killed_worker_and_its_agent_says_so(
    agent: RunningAgent, bundle: Path
) -> None:
    os.kill(agent.worker, signal.SIGKILL)
    agent.process.wait(LONG_S)
    assert_nothing_is_left(agent)
    facts = [decode(body)[1] for body in read_bundle(bundle)]
    (failure,) = [fact for fact in facts if isinstance(fact, RunFailed)]
    assert "killed by SIGKILL" in failure.message
