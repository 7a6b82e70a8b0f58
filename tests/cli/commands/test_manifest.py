"""`mlscope manifest check`: files together."""

from pathlib import Path

import pytest

from cli import exits
from cli.main import main
from cli.printing.catalog import catalog_rows
from schemas.manifest import HardwareManifest, SoftwareManifest
from schemas.status import Catalog

TEXT = "kind: hardware\nname: box\nversion: 1.0.0\narchitecture: amd64\n"


def test_two_texts_under_one_version_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same, other = (tmp_path / f"{name}.yml" for name in ("one", "same", "other"))
    one.write_text(TEXT)
    same.write_text(f"# said otherwise\n{TEXT}")
    other.write_text(TEXT.replace("amd64", "arm64"))
    assert main(["manifest", "check", str(one), str(same)]) == exits.OK
    assert main(["manifest", "check", str(one), str(other)]) == exits.USAGE
    told = capsys.readouterr().err
    assert told == f"{other}: hardware box 1.0.0 differs in {one}: give it a new version\n"
    other.write_text(other.read_text().replace("1.0.0", "1.0.1"))
    assert main(["manifest", "check", str(one), str(other)]) == exits.OK


def test_machines_are_listed() -> None:
    box = HardwareManifest(name="box", architecture="amd64", memory_bytes=1 << 30)
    stack = SoftwareManifest(name="stack", container="own:1", packages={"python": "3.11.*"})
    catalog = Catalog(hardware=(box,), software=(stack,))
    assert catalog_rows(catalog, "hardware").rows[0][:3] == ("box", "1.0.0", "amd64")
    assert "python 3.11.*" in catalog_rows(catalog, "software").rows[0]
