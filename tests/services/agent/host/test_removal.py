"""What a model leaves is removed: nested without end, of any mode, with links that lead outside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.agent.host.folders import clear_dead
from services.agent.host.removal import remove_tree

NESTING = """
import os, sys
os.chdir(sys.argv[1])
for depth in range(3000):
    os.mkdir("nested")
    open("file", "w").close()
    os.chdir("nested")
"""
NOBODY = 65534
AS_NOBODY = """
import sys
from pathlib import Path
from services.agent.host.removal import remove_tree
print(remove_tree(Path(sys.argv[1])))
"""


def nest(folder: Path) -> None:
    """Nest folders in a `folder`, deeper than Python's recursion and than any path reaches."""
    subprocess.run([sys.executable, "-c", NESTING, str(folder)], check=True)


def test_folders_nested_without_end_are_removed(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    nest(scratch)
    assert remove_tree(scratch)
    assert list(tmp_path.iterdir()) == []


def test_an_agent_clears_such_a_folder_at_its_start(tmp_path: Path) -> None:
    """It raised RecursionError at each start, until somebody removed the folder by hand."""
    scratch = tmp_path / "a-dead-start" / "worker-1"
    scratch.mkdir(parents=True)
    nest(scratch)
    clear_dead(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    (scratch / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for folder in (scratch, scratch / "inner"):
        (folder / "to-folder").symlink_to(outside)
        (folder / "to-file").symlink_to(outside / "kept")
        (folder / "to-nothing").symlink_to(tmp_path / "nothing")
    assert remove_tree(scratch)
    assert [path.name for path in outside.iterdir()] == ["kept"]
    (tmp_path / "link").symlink_to(outside)
    remove_tree(tmp_path / "link")
    assert (outside / "kept").read_text() == "kept"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("mode", [0o000, 0o300, 0o500])
def test_a_folder_of_any_mode_is_removed_by_its_owner(mode: int) -> None:
    folder = Path(f"/tmp/mlscope-test-removal-{os.getpid()}-{mode:o}")
    inner = folder / "scratch" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for path in (inner / "file", inner, inner.parent, inner.parents[1], folder):
        os.chown(path, NOBODY, NOBODY)
    for path in (inner, inner.parent):
        path.chmod(mode)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(folder / "scratch")],
            user=NOBODY,
            group=NOBODY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stdout == "True\n", ended.stderr
    finally:
        remove_tree(folder)


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "none")
