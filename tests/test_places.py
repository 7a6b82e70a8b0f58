"""Where tests' servers live: in memory only where there is room for them."""

import stat
from pathlib import Path

import pytest

from tests.places import lent_folder, roomy, server_folder, state_of


def test_a_folder_is_roomy_up_to_what_is_free(tmp_path: Path) -> None:
    assert roomy(tmp_path, room_bytes=1)
    assert not roomy(tmp_path, room_bytes=1 << 60)
    assert not roomy(tmp_path / "missing", room_bytes=1)


def test_without_memory_a_folder_lies_on_the_disk(tmp_path: Path) -> None:
    folder = server_folder(memory=tmp_path / "missing")
    assert folder.parent != tmp_path / "missing"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    folder.rmdir()


def test_a_lent_folder_goes_whatever_happens() -> None:
    seen: list[Path] = []

    def fail() -> None:
        with lent_folder() as folder:
            seen.append(folder / "file")
            seen[0].write_text("")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not seen[0].parent.exists()


def test_a_failing_servers_state_names_room_and_log(tmp_path: Path) -> None:
    log = tmp_path / "nats.log"
    log.write_text("begun\nno more descriptors\n")
    told = state_of(tmp_path, log)
    assert str(tmp_path) in told
    assert "MiB free" in told
    assert told.endswith("begun\nno more descriptors")
