"""Entry points of packages that are installed while the agent runs."""

from pathlib import Path

import pytest

from services.agent.plug_ins import plug_ins


def package(folder: Path, name: str, points: str) -> None:
    declared = folder / f"{name}-1.0.dist-info"
    declared.mkdir(parents=True)
    (declared / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text(f"[mlscope.trial]\n{points}\n")


def test_packages_on_the_path_are_seen_when_they_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "late" not in plug_ins("mlscope.trial")
    monkeypatch.syspath_prepend(tmp_path)
    assert "late" not in plug_ins("mlscope.trial")
    package(tmp_path, "latecomer", "late = json:loads")
    assert plug_ins("mlscope.trial")["late"].value == "json:loads"
    monkeypatch.undo()
    assert "late" not in plug_ins("mlscope.trial")


def test_the_first_package_on_a_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a"):
        package(tmp_path / name, name, f"same = {name}:open")
        monkeypatch.syspath_prepend(tmp_path / name)
    assert plug_ins("mlscope.trial")["same"].value == "a:open"
