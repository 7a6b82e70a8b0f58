"""The file of a backup, while it is written."""

from pathlib import Path

from mlscope.backup.archive import Contents, writing


def test_what_lies_in_the_place_of_an_unfinished_backup_is_not_written_to(tmp_path: Path) -> None:
    """In a folder where all may write, another user could have put a link or a file there."""
    own = tmp_path / "own"
    own.write_text("own")
    (tmp_path / ".b.partial").symlink_to(own)
    with writing(tmp_path / "b", Contents("1", "now")):
        pass
    assert own.read_text() == "own"
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
