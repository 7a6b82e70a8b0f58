"""The host's roof: measured once, kept, and never in the way."""

from pathlib import Path

import numpy as np
import pytest

from schemas.run import Ceiling
from services.agent import ceilings
from services.agent.ceilings import FILE, host_roof


def test_the_roof_is_measured_and_says_how(tmp_path: Path) -> None:
    found = host_roof(tmp_path)
    assert found.keys() == {"peak_flops", "memory_bandwidth"}
    # Any machine does a thousandth of a GFLOP and of a GB a second, none a million.
    assert all(1e6 < (each.measured or 0.0) < 1e15 for each in found.values())
    assert "1024 x 1024" in found["peak_flops"].method


def test_it_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = host_roof(tmp_path)
    monkeypatch.setattr(ceilings, "measured", lambda: {"peak_flops": Ceiling(measured=1.0)})
    assert host_roof(tmp_path) == first


@pytest.mark.parametrize(
    "torn", ["", "[]", '{"peak_flops": 3}', '{"peak_flops": {"measured": "x"}}']
)
def test_a_torn_file_is_measured_anew(
    tmp_path: Path, torn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_text(torn)
    monkeypatch.setattr(ceilings, "measured", lambda: {"peak_flops": Ceiling(measured=1.0)})
    assert host_roof(tmp_path) == {"peak_flops": Ceiling(measured=1.0)}


def test_without_memory_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "ones", none)
    assert host_roof(tmp_path) == {}


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "measured", lambda: {"peak_flops": Ceiling(measured=1.0)})
    assert host_roof(tmp_path / "gone") == {"peak_flops": Ceiling(measured=1.0)}
