"""The wheel has every file that a service needs at run time."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("folder", ["templates", "static"])
def test_the_wheel_has_the_gateways_files(folder: str) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is in the extra dev")
    builder = wheel.WheelBuilder(str(ROOT))
    included = {file.distribution_path for file in builder.recurse_included_files()}
    needed = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "services/gateway" / folder).rglob("*")
        if path.is_file()
    }
    assert needed
    assert needed - included == set()
