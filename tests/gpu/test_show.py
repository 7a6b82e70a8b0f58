"""Recordings shown to contributors: each bundle is described, and its tables print."""

import pytest

pytest.importorskip("polars")

from tests.gpu.recordings import FOLDER, bundle_names
from tests.gpu.show import main


def test_each_recording_is_described() -> None:
    readme = (FOLDER / "README.md").read_text()
    names = [path.name for path in FOLDER.glob("*.gz") if ".bundle." not in path.name]
    missing = [name for name in (*bundle_names(), *names) if f"| `{name}` |" not in readme]
    assert missing == []


def test_a_recordings_tables_print(capsys: pytest.CaptureFixture[str]) -> None:
    main(["graph"])
    assert "A11  kernels_by_layer" in capsys.readouterr().out
    main(["graph", "a11"])
    printed = capsys.readouterr()
    assert printed.out.startswith("Kernels by layer (A11)\nagent ")
    assert "CUDA graphs were replayed" in printed.err


def test_unknown_names_are_answered_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match="no recording is called grph; they are bert-base-16, "):
        main(["grph"])
    with pytest.raises(SystemExit, match="no table is called layer; they are conditions, "):
        main(["graph", "layer"])
