"""The host's roof: what is measured, and how it is told."""

import json
import subprocess
import sys

import numpy as np
import pytest

from services.agent.ceilings import Roof, main
from services.agent.process import worker_environment


def test_the_roof_is_measured_and_says_how() -> None:
    command = [sys.executable, "-m", "services.agent.ceilings"]
    written = subprocess.check_output(command, env=worker_environment(), timeout=60)
    found = Roof.of(json.loads(written))
    assert found.note == ""
    assert found.ceilings.keys() == {"peak_flops", "memory_bandwidth"}
    # Any machine does a thousandth of a GFLOP and of a GB a second, none a million.
    assert all(1e6 < (each.measured or 0.0) < 1e15 for each in found.ceilings.values())
    assert "1024 x 1024" in found.ceilings["peak_flops"].method
    assert Roof.of(found.words()) == found


def test_without_memory_it_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError("140 MB")

    monkeypatch.setattr(np, "ones", none)
    with pytest.raises(SystemExit, match="no memory: 140 MB"):
        main()
