"""How a worker and what it shares end: in one order, each thing freed once."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.agent.host.process import WorkerProcess
from services.agent.link.messages import OrderDone, PerformOrder, RunEnded
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, an_order, limits

ROOT = Path(__file__).resolve().parents[4]
ROUNDS = 50
CHECKED = {
    "LD_PRELOAD": "libc_malloc_debug.so.0",
    "MALLOC_CHECK_": "3",
    "MALLOC_PERTURB_": "165",
    "PYTHONMALLOC": "debug",
}
"""What makes glibc and Python end a process that frees something twice."""


async def test_no_exit_handler_runs_in_a_worker_that_closed_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text("import atexit, os\natexit.register(os.abort)\n")
    monkeypatch.setenv("PYTHONPATH", str(planted))
    process = await WorkerProcess.start("w", limits(tmp_path))
    await process.send(PerformOrder(an_order(), MANIFESTS))
    assert isinstance(await process.receive(), RunEnded)
    assert isinstance(await process.receive(), OrderDone)
    await process.close()
    assert "exited with 0" in str(await process.death())


class Closed:
    """A part of a session that notes that it was closed, and can't be."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name, self.order = name, order

    def close(self) -> None:
        """Note the name, and fail."""
        self.order.append(self.name)
        raise OSError(self.name)


def test_a_session_closes_the_model_last_whatever_fails_before() -> None:
    order: list[str] = []
    names = ("predictor", "pool", "inline", "collectors")
    parts = {name: Closed(name, order) for name in names}
    supply: Any = SimpleNamespace(pool=parts["pool"])
    slots: Any = ()
    fields: dict[str, Any] = {name: parts[name] for name in ("predictor", "inline")}
    subject: Any = None
    session = Session(
        subject,
        supply,
        slots=slots,
        checksums={},
        warmup_queries=0,
        opening_collectors=parts["collectors"],  # type: ignore[arg-type]
        **fields,
    )
    with suppress(OSError):
        session.close()
    assert order == ["collectors", "inline", "pool", "predictor"]


@pytest.mark.timeout(120)
def test_fifty_openings_free_each_thing_once(tmp_path: Path) -> None:
    """The interpreter ends as usual here: nothing of ours is freed by two owners."""
    command = [sys.executable, "-m", "tests.services.agent.link.shared_openings"]
    ended = subprocess.run(
        [*command, str(ROUNDS), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **CHECKED},
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not list(tmp_path.iterdir())
