"""Folders of starts: nobody clears a living one's."""

import os
from pathlib import Path

import pytest

from services.agent.host.folders import clear_dead, has_died, own_folder


def test_clearing_leaves_the_living_alone(tmp_path: Path) -> None:
    living = own_folder(tmp_path, "i1")
    (living.path / "spool").write_text("batches")
    (tmp_path / "i0" / "worker").mkdir(parents=True)
    (tmp_path / "ring").write_text("of an older version")
    clear_dead(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["i1"]
    assert (living.path / "spool").read_text() == "batches"
    living.release()


def test_released_it_is_gone(tmp_path: Path) -> None:
    folder = own_folder(tmp_path, "i1")
    folder.release()
    assert list(tmp_path.iterdir()) == []
    own_folder(tmp_path, "i1").release()


def test_nobody_else_looks_into_it(tmp_path: Path) -> None:
    """The users of workers of root pass through it."""
    folder = own_folder(tmp_path / "agent", "i1")
    assert folder.path.stat().st_mode & 0o777 == (0o700 if os.geteuid() else 0o711)
    folder.release()


def test_who_is_dead_is_known_by_the_lock(tmp_path: Path) -> None:
    living = own_folder(tmp_path, "i1")
    (tmp_path / "i0").mkdir()
    told = {each: has_died(tmp_path, each) for each in ("i0", "i1", "elsewhere", "", "..")}
    assert told == {"i0": True, "i1": False, "elsewhere": False, "": False, "..": False}
    living.release()


def test_a_start_has_one_folder(tmp_path: Path) -> None:
    folder = own_folder(tmp_path, "i1")
    with pytest.raises(BlockingIOError):
        own_folder(tmp_path, "i1")
    folder.release()
