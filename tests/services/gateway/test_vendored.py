"""Files under static/: vendored ones are those of their authors, own ones are small."""

import hashlib
import tomllib
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "services" / "gateway" / "static"
VENDOR = STATIC / "vendor"
LIBRARIES = tomllib.loads((VENDOR / "manifest.toml").read_text("utf-8"))["library"]
OWN_LINES = 400


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library["file"])
def test_a_vendored_file_is_that_of_the_manifest(library: dict[str, str]) -> None:
    data = (VENDOR / library["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == library["sha256"]
    assert (VENDOR / library["licence_file"]).is_file()
    assert all(library[key] for key in ("name", "version", "licence", "npm"))


def test_every_vendored_file_is_in_the_manifest() -> None:
    named = {library[key] for library in LIBRARIES for key in ("file", "licence_file")}
    files = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert files - {"manifest.toml"} == named


def test_no_module_is_long() -> None:
    long = [
        f"{path.relative_to(STATIC)}: {lines} lines"
        for path in sorted((STATIC / "js").rglob("*.js"))
        if (lines := path.read_text("utf-8").count("\n")) >= OWN_LINES
    ]
    assert long == []
