"""A data folder of each release before opens in this version: nothing measured is lost.

`tests/releases/VERSION.tar.xz` is a folder that this version of mlscope wrote (evaluations of
`identity` and `tiny-cnn`), without logs and with an empty write-ahead log; `VERSION.json` is what
`mlscope analyze ID latency -o json` said of each evaluation then. `CONTRIBUTING.md` says how both
are made.
"""

import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cli import exits
from tests.cli.conftest import CommandLine

RELEASES = Path(__file__).resolve().parents[2] / "releases"
CHANGELOG = RELEASES.parents[1] / "CHANGELOG.md"


def opened(release: str, folder: Path) -> Path:
    """Unpack the data folder of a `release` below `folder`, for the user whom PostgreSQL gets."""
    with tarfile.open(RELEASES / f"{release}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    postgres = folder / "postgres" / "data"
    for path in (postgres, *postgres.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
        if os.geteuid() == 0:
            shutil.chown(path, "nobody", "nogroup")
    return folder


def as_columns(table: dict[str, Any]) -> dict[str, list[object]]:
    """Return a table by column; a newer version may have more of them."""
    names = [column["name"] for column in table["columns"]]
    return {name: [row[name] for row in table["rows"]] for name in names}


def test_each_release_left_a_data_folder() -> None:
    headings = re.findall(r"^## (\d+\.\d+)(.*)$", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    released = {version for version, ending in headings if "(unreleased)" not in ending}
    left_files = {path.name for path in RELEASES.iterdir()}
    assert left_files == {f"{version}.{end}" for version in released for end in ("json", "tar.xz")}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", [path.stem for path in sorted(RELEASES.glob("*.json"))])
async def test_a_folder_of_a_release_before_opens_with_every_evaluation(
    data_folder: Path, release: str
) -> None:
    before = json.loads((RELEASES / f"{release}.json").read_text("utf-8"))
    folder = opened(release, data_folder / "cluster")
    line = CommandLine(MLSCOPE_DATA=str(folder), MLSCOPE_GATEWAY_PORT="0")
    for _ in range(2):  # the first migrates, the second finds that done
        try:
            up = await line("up", "--detach")
            assert up.code == exits.OK, up.err
            listed = (await line("ls", "evaluations", "-o", "json")).json()
            assert {row["evaluation"]: row["state"] for row in listed} == dict.fromkeys(
                before, "analyzed"
            )
            for evaluation, (table,) in before.items():
                (now,) = (await line("analyze", evaluation, "latency", "-o", "json")).json()
                then = as_columns(table)
                assert {name: as_columns(now)[name] for name in then} == then
        finally:
            await line("down")
    assert "lost rows" not in (folder / "logs" / "collector.log").read_text("utf-8")
