"""Workers that start fast."""

import subprocess

import pytest

from tests.forked_worker import popen_of_workers


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers that a test starts."""
    monkeypatch.setattr(subprocess, "Popen", popen_of_workers())
