"""Workers that start fast."""

import asyncio

import pytest

from tests.forking.workers import forking_workers


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers that a test starts."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", forking_workers())
