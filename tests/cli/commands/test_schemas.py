"""`mlscope schemas` writes the contract, all of it, where it is told to."""

from pathlib import Path

import pytest

from cli import exits
from cli.main import main
from schemas.export.documents import documents


def test_every_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "v1"
    assert main(["schemas", "--out", str(folder)]) == exits.OK
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == documents()
    assert str(len(documents())) in capsys.readouterr().out


def test_without_a_folder_the_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas"]) == exits.OK
    assert capsys.readouterr().out.splitlines() == list(documents())


def test_two_folders_are_one_too_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", "--write", "--out", str(tmp_path)]) == exits.USAGE
    assert "exclude each other" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
