"""Workers that start fast, and processes whose end is reported late."""

import asyncio
import time
from typing import Any

import pytest

from tests.forking.workers import forking_workers

LATE_S = 0.2


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers that a test starts."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", forking_workers())


@pytest.fixture
def ending_late(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Return a list of the processes that a test starts, whose ends asyncio learns late."""
    start, wait = asyncio.create_subprocess_exec, "_do_waitpid"
    waiting = getattr(asyncio.ThreadedChildWatcher, wait)
    started: list[asyncio.subprocess.Process] = []

    async def start_and_note(*argv: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*argv, **options))
        return started[-1]

    def wait_late(*arguments: Any) -> None:
        time.sleep(LATE_S)
        waiting(*arguments)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_note)
    monkeypatch.setattr(asyncio.ThreadedChildWatcher, wait, wait_late)
    return started
