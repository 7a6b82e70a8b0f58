"""What Python's `multiprocessing` may do in a sandbox, as `docs/security.md` says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.agent.machine.landlock import landlock_version
from services.agent.worker.seccomp.installing import filter_fault
from tests.services.agent.builders import MANIFESTS

pytestmark = [
    pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock"),
    pytest.mark.skipif(bool(filter_fault()), reason="calls can't be filtered here"),
]

ENTERING = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.link.messages import PerformOrder
from services.agent.worker.sandbox.sandbox import enter_sandbox
from tests.services.agent.builders import MANIFESTS, an_order

scratch = Path(sys.argv[1])
os.environ["TMPDIR"] = str(scratch)
allowances = replace(DEFAULT_ALLOWANCES, worker_user=sys.argv[2])
message = replace(PerformOrder(an_order(), MANIFESTS, {}), allowances=allowances)

def outcome(action):
    try:
        return action()
    except Exception as error:
        return type(error).__name__

def ended(method):
    process = multiprocessing.get_context(method).Process(target=sys.exit, args=(5,))
    process.start()
    process.join()
    return process.exitcode

def piped():
    first, second = multiprocessing.Pipe()
    if os.fork() == 0:
        first.send(7)
        os._exit(0)
    return second.recv()
"""
PROCESSES = """
enter_sandbox(message, scratch)
fork = multiprocessing.get_context("fork")
print(ended("fork"), ended("spawn"), piped(), list(ThreadPoolExecutor(2).map(abs, (-1, -2))))
print(outcome(lambda: ended("forkserver")), outcome(lambda: len(fork.Manager().list([1]))))
print(outcome(fork.Lock), outcome(fork.Queue), outcome(lambda: fork.Pool(2)))
print(outcome(lambda: list(ProcessPoolExecutor(2, mp_context=fork).map(abs, (-1, -2)))))
"""
LOADERS = """
import torch

enter_sandbox(message, scratch)

def loaded(workers):
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=workers)
    return [batch.sum().item() for batch in loader]

print(loaded(0), outcome(lambda: loaded(2)))
"""


def printed(folder: Path, script: str, user: str) -> list[str]:
    """Return what a `script` prints in a sandbox, as a worker with this `user`."""
    paths = os.pathsep.join((str(MANIFESTS.parent), *filter(None, sys.path)))
    ended = subprocess.run(
        [sys.executable, "-c", ENTERING + script, str(folder), user],
        cwd=MANIFESTS.parent,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout.splitlines()


as_root = pytest.mark.skipif(os.getuid() != 0, reason="only a worker of root gets a user")


@pytest.mark.parametrize(
    ("user", "with_listeners"),
    [
        ("agent", "PermissionError EOFError"),
        pytest.param("own", "5 1", marks=as_root),
    ],
)
def test_processes_start_and_have_no_locks_queues_or_pools(
    tmp_path: Path, user: str, with_listeners: str
) -> None:
    """Their semaphores are files in /dev/shm; `forkserver` and `Manager` listen for others."""
    assert printed(tmp_path, PROCESSES, user) == [
        "5 5 7 [1, 2]",
        with_listeners,
        " ".join(["PermissionError"] * 3),
        "PermissionError",
    ]


def test_a_loader_of_pytorch_has_no_workers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert printed(tmp_path, LOADERS, "agent") == ["[6, 22] PermissionError"]
