"""Packages are installed once by many processes, and again when their pins change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.timescale.installing import install, is_installed

_INSTALL = """
import pathlib, shutil, sys, time
busy = pathlib.Path("busy")
busy.touch(exist_ok=False)
with open("runs", "a") as runs:
    runs.write("x")
time.sleep(0.5)
pathlib.Path("node_modules").mkdir(exist_ok=True)
shutil.copy("package-lock.json", "node_modules/.package-lock.json")
busy.unlink()
"""
_COMMAND = (sys.executable, "-c", _INSTALL)
_WANT = (
    "import sys; from pathlib import Path; from tests.timescale.installing import install;"
    " install(Path(sys.argv[1]), tuple(sys.argv[2:]))"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "package.json").write_text("{}")
    _pin(tmp_path, "1.0.0")
    return tmp_path


def _pin(folder: Path, version: str) -> None:
    packages = {"": {"name": "tests"}, "node_modules/pglite": {"version": version}}
    (folder / "package-lock.json").write_text(json.dumps({"packages": packages}))


def test_processes_that_want_it_at_once_install_once(folder: Path) -> None:
    wanting = [
        subprocess.Popen([sys.executable, "-c", _WANT, str(folder), *_COMMAND]) for _ in range(3)
    ]
    assert [each.wait() for each in wanting] == [0, 0, 0]
    assert (folder / "runs").read_text() == "x"


def test_a_new_pin_is_installed(folder: Path) -> None:
    install(folder, _COMMAND)
    assert is_installed(folder)
    _pin(folder, "1.0.1")
    assert not is_installed(folder)
    install(folder, _COMMAND)
    assert (folder / "runs").read_text() == "xx"


def test_what_was_cut_short_is_installed_anew(folder: Path) -> None:
    (folder / "node_modules").mkdir()
    install(folder, _COMMAND)
    assert is_installed(folder)


def test_what_npm_installs_counts_as_installed(timescale_url: str) -> None:
    assert is_installed(Path(__file__).parent)
