"""Archives: what is meant comes out, nothing comes out of the folder, and bombs do not go off."""

import contextlib
import hashlib
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.assets.addresses import Source, parse
from mlscope.assets.archives import unpack
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import ArchiveBomb, ArchiveUnreadable, ArchiveUnsafe, FetchError
from mlscope.assets.fetching import Assets
from mlscope.assets.options import UnpackLimits
from tests.mlscope.assets.web_server import Site

BOUNDS = UnpackLimits(max_bytes=10 << 20, max_files=50, ratio=20.0, free_bytes=1 << 20)


def a_tar(*members: tarfile.TarInfo, mode: str = "w") -> bytes:
    """Return a tar archive of members; files hold zeros."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return out.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    """Return a member of a tar archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def a_zip(files: dict[str, bytes], mode: int = stat.S_IFREG | 0o644) -> bytes:
    """Return a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, body)
    return out.getvalue()


def held_in_tar(name: str, body: bytes) -> bytes:
    """Return a tar archive of one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(member(name, size=len(body)), io.BytesIO(body))
    return out.getvalue()


@pytest.mark.parametrize("name", ["x.npz", "m.pt", "deep/notes.docx"])
def test_a_tar_that_ends_in_a_zip_is_a_tar(tmp_path: Path, name: str) -> None:
    body = a_zip({"inside": b"12"})
    assert unpacked(held_in_tar(name, body), tmp_path) == {name: body}


def test_a_zip_of_nothing_is_a_zip(tmp_path: Path) -> None:
    assert unpacked(a_zip({}), tmp_path) == {}


def unpacked(body: bytes, folder: Path, bounds: UnpackLimits = BOUNDS) -> dict[str, bytes]:
    """Unpack an archive below `folder` and return the files."""
    (folder / "archive").write_bytes(body)
    into = folder / "into"
    into.mkdir()
    unpack(folder / "archive", into, address="it", limits=bounds)
    files = [path for path in into.rglob("*") if path.is_file()]
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(params=["data_filter", ""], ids=["new", "before 3.11.4"])
def any_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.delattr(tarfile, "data_filter")


@pytest.mark.usefixtures("any_python")
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_of_each_compression_is_unpacked(tmp_path: Path, mode: str) -> None:
    folder, file = member("./d", tarfile.DIRTYPE), member("./d/file", size=3)
    links = (
        member("d/soft", tarfile.SYMTYPE, "../d/file"),
        member("d/hard", tarfile.LNKTYPE, "d/file"),
    )
    found = unpacked(a_tar(folder, file, *links, mode=mode), tmp_path)
    assert found == {"d/file": bytes(3), "d/soft": bytes(3), "d/hard": bytes(3)}


def test_a_zip_is_unpacked(tmp_path: Path) -> None:
    assert unpacked(a_zip({"a/": b"", "a/b": b"x", "c": b"y"}), tmp_path) == {
        "a/b": b"x",
        "c": b"y",
    }


@pytest.mark.parametrize("name", ["../up", "/rooted", "a/../../up", "a\\..\\up"])
def test_no_path_leads_out(tmp_path: Path, name: str) -> None:
    for number, body in enumerate((a_zip({name: b"x"}), a_tar(member(name, size=1)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(ArchiveUnsafe, match="outside its folder"):
            unpacked(body, folder)
        assert sorted(path.name for path in folder.rglob("*")) == ["archive", "into"]


@pytest.mark.usefixtures("any_python")
@pytest.mark.parametrize(
    "members",
    [
        [member("a", tarfile.SYMTYPE, "/etc")],
        [member("a", tarfile.SYMTYPE, "..")],
        [member("d/a", tarfile.SYMTYPE, "../../x")],
        [member("d/a", tarfile.SYMTYPE, "x/../../..")],
        [member("b", tarfile.SYMTYPE, "."), member("a", tarfile.SYMTYPE, "b/..")],
        [member("a", tarfile.SYMTYPE, "."), member("a/b")],
        [member("a"), member("a/b")],
        [member("a", tarfile.LNKTYPE, "../x")],
        [member("a", tarfile.SYMTYPE, "b"), member("c", tarfile.LNKTYPE, "a")],
        [member("a", tarfile.FIFOTYPE)],
        [member("a", tarfile.CHRTYPE)],
        [member("a", tarfile.BLKTYPE)],
        [member("a"), member("a")],
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    with pytest.raises(ArchiveUnsafe, match="it: member"):
        unpacked(a_tar(*members), tmp_path)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnsafe, match="not a regular file"):
        unpacked(a_zip({"a": b"/etc"}, stat.S_IFLNK | 0o777), tmp_path)


NAMES = st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=4).map("/".join)
MEMBERS = st.tuples(
    NAMES, st.sampled_from([tarfile.SYMTYPE, tarfile.REGTYPE, tarfile.DIRTYPE]), NAMES
)


@given(st.lists(MEMBERS, max_size=6))
def test_whatever_comes_out_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, bytes, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with contextlib.suppress(FetchError):
        unpacked(a_tar(*(member(*each) for each in members)), folder)
    inside = (folder / "into").resolve()
    for path in inside.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(inside)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_bomb_does_not_go_off(tmp_path: Path, kind: str) -> None:
    size = 8 << 20
    bomb = (
        a_zip({"z": bytes(size)}) if kind == "zip" else a_tar(member("z", size=size), mode="w:gz")
    )
    with pytest.raises(ArchiveBomb, match="20 times its own size"):
        unpacked(bomb, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 3 << 20


def test_a_zip_that_lies_of_its_size_is_no_way_round(tmp_path: Path) -> None:
    body = a_zip({"z": bytes(8 << 20)})
    lying = body.replace((8 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    with pytest.raises((ArchiveBomb, ArchiveUnreadable)):
        unpacked(lying, tmp_path)


def test_bytes_and_files_are_bounded(tmp_path: Path) -> None:
    with pytest.raises(ArchiveBomb, match="100 bytes"):
        unpacked(a_tar(member("z", size=101)), tmp_path, UnpackLimits(max_bytes=100))
    (tmp_path / "many").mkdir()
    with pytest.raises(ArchiveBomb, match="50 files"):
        unpacked(a_zip({str(n): b"" for n in range(51)}), tmp_path / "many")


def test_a_huge_header_is_not_read(tmp_path: Path) -> None:
    header = member("x", tarfile.XHDTYPE, size=2 << 20)
    with pytest.raises(ArchiveBomb, match="of header"):
        unpacked(header.tobuf() + bytes(3 << 20), tmp_path)


@pytest.mark.parametrize(
    "body",
    [b"", b"no archive", a_tar(member("a", size=5000), mode="w:gz")[:-60], b"\x1f\x8b" + bytes(50)],
    ids=["nothing", "text", "cut short", "torn"],  # a stamp in the body would differ by worker
)
def test_what_is_no_archive_is_said(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(ArchiveUnreadable):
        unpacked(body, tmp_path)


def served(site: Site, body: bytes) -> tuple[Source, Checksum]:
    """Have the server offer an archive and return what to fetch."""
    return parse(site.put("/archive", body)), Checksum("sha256", hashlib.sha256(body).hexdigest())


def test_a_tree_is_unpacked_once(assets: Assets, site: Site, cache: Cache) -> None:
    source = served(site, a_zip({"a/b": b"x" * 50}))
    for _ in range(2):
        with assets.fetch_tree(*source) as held:
            assert (held.path / "a" / "b").read_bytes() == b"x" * 50
    assert len(site.asked) == 1
    assert held.path.parts[-3] == "trees"


def test_a_tree_that_was_altered_is_unpacked_anew(assets: Assets, site: Site) -> None:
    source = served(site, a_zip({"a": b"good"}))
    with assets.fetch_tree(*source) as held:
        (held.path / "a").write_bytes(b"evil!")
    with assets.fetch_tree(*source) as held:
        assert (held.path / "a").read_bytes() == b"good"


def test_a_bad_archive_leaves_nothing(assets: Assets, site: Site, tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnsafe):
        assets.fetch_tree(*served(site, a_zip({"ok": b"x", "../up": b"x"})))
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
    assert list((tmp_path / "cache" / "trees").glob("*/*")) == []
