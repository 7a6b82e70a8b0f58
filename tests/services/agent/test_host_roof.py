"""The host's roof as an agent has it: measured once, apart from workers, never in the way."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.plan import WorkOrder
from schemas.run import Ceiling
from services.agent import host_roof
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.execution import Execution
from services.agent.host_roof import FILE, measured_apart, roof_for
from services.agent.process import WorkerProcess
from services.agent.telling import Telling
from tests.services.agent.builders import MANIFESTS, Kept, a_run, a_subject, an_order, limits

FOUND = Roof({"peak_flops": Ceiling(measured=1.0, method="told")})
REFUSED = Roof(note="the host's roof could not be measured: no memory: 140 MB")
LAYERS = an_order(runs=(a_run(level="framework"),))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often it is measured."""
    counted: list[int] = []

    async def measured() -> Roof:
        counted.append(1)
        return FOUND

    monkeypatch.setattr(host_roof, "measured_apart", measured)
    return counted


async def test_sessions_of_one_start_share_it(tmp_path: Path, times: list[int]) -> None:
    other = an_order(runs=(a_run(level="system"),), session="s1")
    assert [await roof_for(each, tmp_path) for each in (LAYERS, other)] == [FOUND, FOUND]
    assert len(times) == 1


@pytest.mark.parametrize(
    "order",
    [an_order(), an_order(a_subject(device="gpu"), (a_run(level="framework"),))],
)
async def test_it_is_for_layers_on_a_cpu(
    tmp_path: Path, times: list[int], order: WorkOrder
) -> None:
    assert await roof_for(order, tmp_path) == NO_ROOF
    assert times == []


@pytest.mark.parametrize(
    "torn", ["", "[]", "{}", '{"ceilings": {"peak_flops": {"measured": "x"}}, "note": ""}']
)
async def test_a_torn_file_is_measured_anew(tmp_path: Path, torn: str, times: list[int]) -> None:
    (tmp_path / FILE).write_text(torn)
    assert await roof_for(LAYERS, tmp_path) == FOUND
    assert len(times) == 1


async def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, times: list[int]) -> None:
    assert await roof_for(LAYERS, tmp_path / "gone") == FOUND
    assert len(times) == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no memory: 140 MB')", "no memory: 140 MB"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
        ("print('hello')", "unreadable: "),
    ],
)
async def test_a_process_that_fails_leaves_a_note(
    monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    start = asyncio.create_subprocess_exec

    async def failing(*_: Any, **more: Any) -> asyncio.subprocess.Process:
        return await start(sys.executable, "-c", code, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", failing)
    found = await measured_apart()
    assert found.ceilings == {}
    assert found.note.startswith(f"the host's roof could not be measured: {told}")


def most_held_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


async def carried_out(roof: Roof, level: str, folder: Path) -> tuple[Kept, int]:
    """Do a run in a real worker; return what is said, and the most memory it held, in bytes."""
    kept, order = Kept(), an_order(runs=(a_run(level=level),))
    worker = await WorkerProcess.start("w", limits(folder))
    try:
        await Execution(Telling(order, kept), worker, MANIFESTS, 60.0, roof=roof).carry_out()
        peak_bytes = most_held_bytes(worker.pid)
    finally:
        await worker.close()
    return kept, peak_bytes


async def test_a_run_of_layers_is_told_it_and_pays_no_memory_for_it(tmp_path: Path) -> None:
    bare, least = await carried_out(FOUND, "model", tmp_path)
    deep, most = await carried_out(FOUND, "framework", tmp_path)
    assert bare.completed().conditions.peak_flops is None
    assert deep.completed().conditions.peak_flops == FOUND.ceilings["peak_flops"]
    assert most - least < 64 << 20


async def test_what_is_not_known_is_a_caveat(tmp_path: Path) -> None:
    kept, _ = await carried_out(REFUSED, "framework", tmp_path)
    assert kept.completed().conditions.peak_flops is None
    assert REFUSED.note in kept.completed().caveats
