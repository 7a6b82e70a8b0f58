"""A worker that dies: its test fails by name, what it had before is not lost, and the run ends."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """\
import pytest
from tests.scheduling import FilesTogether

def pytest_xdist_make_scheduler(config, log):
    return FilesTogether(config, log)
"""
PASSES = "def test_one(): pass\ndef test_two(): pass\n"
SINGLE = "def test_one(): pass\n"
DIES = "import os\ndef test_before(): pass\ndef test_dies(): os._exit(1)\ndef test_after(): pass\n"


def outcome(folder: Path, workers: int, *files: str) -> str:
    """Run files of tests, one of which fails, on so many workers; return what pytest prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin", "-n", str(workers)]
    environ = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return ended.stdout


def test_what_a_dead_workers_file_holds_runs_and_what_is_done_does_not_run_again(
    tmp_path: Path,
) -> None:
    printed = outcome(tmp_path, 2, *[PASSES] * 3, DIES, *[PASSES] * 2)
    assert "FAILED test_3.py::test_dies" in printed
    assert "1 failed, 12 passed" in printed


def test_files_of_one_test_go_on_after_the_only_worker_died(tmp_path: Path) -> None:
    printed = outcome(tmp_path, 1, SINGLE, DIES, *[SINGLE] * 3)
    assert "FAILED test_1.py::test_dies" in printed
    assert "1 failed, 6 passed" in printed
