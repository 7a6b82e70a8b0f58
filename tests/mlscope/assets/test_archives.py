"""Archives: what is meant comes out, nothing comes out of the folder, and bombs do not go off."""

import contextlib
import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
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


def bytes_in_tar(*parts: bytes) -> bytes:
    """Return a tar of headers and contents, each filled up to whole blocks."""
    return b"".join(part + bytes(-len(part) % 512) for part in parts) + bytes(1024)


def pax(body: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return an extended header with its body."""
    return bytes_in_tar(member("x", kind, size=len(body)).tobuf(), body)[:-1024]


def record(keyword: str, value: str) -> bytes:
    """Return a record of a pax header."""
    text = f" {keyword}={value}\n".encode()
    length = len(text)
    while length != len(str(length)) + len(text):
        length = len(str(length)) + len(text)
    return str(length).encode() + text


def sparse_tar(extensions: int) -> bytes:
    """Return a tar of a GNU sparse file, whose map has that many blocks of extensions."""
    head = bytearray(member("a.bin", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    place = b"00000000001\0" * 2
    head[386:482], head[482], head[483:495] = place * 4, bool(extensions), b"00000000001\0"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    block = place * 21 + b"\1" + bytes(7)
    return bytes_in_tar(bytes(head), block * (extensions - 1), place * 21)


def overlapping() -> bytes:
    """Return a pax header whose records each name all of the rest as their keyword."""
    return pax(b"5 aa\n" * 200_000 + b"9 aaaa=a\n")


def many_in_zip(count: int) -> bytes:
    """Return a zip with a directory of so many members."""
    entry = b"PK\1\2" + bytes(24) + b"\1" + bytes(17) + b"a"
    end = b"PK\5\6" + bytes(8) + (count * 47).to_bytes(4, "little") + bytes(6)
    return b"PK\3\4" + entry * count + end


def xz_of_dictionary(size: int) -> bytes:
    """Return an xz file which says that it needs a dictionary: 40 is of 4 GiB."""
    packed = bytearray(lzma.compress(bytes_in_tar(member("a").tobuf())))
    end = 12 + (packed[12] + 1) * 4
    packed[packed.index(b"\x21\x01", 12) + 2] = size
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    return bytes(packed)


UNPACKING = """
import resource, sys
from pathlib import Path
from mlscope.assets.archives import unpack
from mlscope.assets.options import UnpackLimits
resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
try:
    unpack(Path(sys.argv[1]), Path(sys.argv[2]), address="it", limits=UnpackLimits())
except Exception as error:
    print(f"{type(error).__name__}: {error}"[:2000])
"""
"""Unpacks in little memory. The limit of CPU only ends what would not end."""


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (lambda: gzip.compress(sparse_tar(100_000), 1), "ArchiveUnsafe: .*leave out --sparse"),
        (overlapping, "ArchiveUnreadable: .*pax header is damaged"),
        (
            lambda: pax(record("path", "1" * 1_000_000)) + member("a").tobuf(),
            "ArchiveUnsafe: .*name",
        ),
        (
            lambda: pax(b"".join(record(f"{n}", "") for n in range(70_000))) * 12,
            "ArchiveBomb: .*more than 1 MiB of headers",
        ),
        (lambda: many_in_zip(500_001), "ArchiveBomb: .*500000 files.*tar.gz"),
    ],
    ids=["map of a sparse file", "records in each other", "digits", "headers", "zip's directory"],
)
def test_a_bomb_in_a_header_is_refused_in_little_memory(
    tmp_path: Path, bomb: Callable[[], bytes], words: str
) -> None:
    (tmp_path / "archive").write_bytes(bomb())
    (tmp_path / "into").mkdir()
    command = (sys.executable, "-c", UNPACKING, tmp_path / "archive", tmp_path / "into")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.match(words, done.stdout), done


@pytest.mark.parametrize(
    "header",
    [
        pax(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")),
        pax(record("GNU.sparse.map", "0,1")),
        pax(record("GNU.sparse.size", "1")),
    ],
    ids=["1.0", "0.1", "0.0"],
)
def test_a_sparse_file_is_refused_by_name(tmp_path: Path, header: bytes) -> None:
    content = b"1\n0\n1\n" + bytes(506)
    body = bytes_in_tar(header, member("a.bin", size=len(content)).tobuf(), content)
    with pytest.raises(ArchiveUnsafe, match=r"it: member 'a.bin' is a sparse file.*--sparse"):
        unpacked(body, tmp_path)


@pytest.mark.parametrize("keyword", ["path", "size", "GNU.sparse.major"])
def test_a_header_of_all_members_that_misleads_is_refused(tmp_path: Path, keyword: str) -> None:
    header = pax(record(keyword, "1"), tarfile.XGLTYPE)
    with pytest.raises(ArchiveUnreadable, match="gives all members"):
        unpacked(bytes_in_tar(header, member("a").tobuf()), tmp_path)


def test_headers_without_content_are_counted(tmp_path: Path) -> None:
    body = a_tar(*(member(".", tarfile.DIRTYPE) for _ in range(3000)), mode="w:gz")
    bounds = UnpackLimits(ratio=20.0, free_bytes=1 << 20)
    with pytest.raises(ArchiveBomb, match="20 times its own size"):
        unpacked(body, tmp_path, bounds)


def test_members_do_not_stay_in_memory(tmp_path: Path) -> None:
    body = a_tar(*(member(".", tarfile.DIRTYPE) for _ in range(10_000)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        unpacked(body, tmp_path, UnpackLimits())
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_sixteen_headers_are_the_most_of_a_member(tmp_path: Path) -> None:
    body = bytes_in_tar(pax(b"") * 17, member("a").tobuf())
    with pytest.raises(ArchiveBomb, match="16 extended headers of a member"):
        unpacked(body, tmp_path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_long_name_is_refused(tmp_path: Path, kind: bytes) -> None:
    for number, name in enumerate((b"n" * 500_000, b"n" * 256, b"ab/" * 99 * 8)):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = bytes_in_tar(pax(name, kind), member("a", tarfile.SYMTYPE, "b").tobuf())
        with pytest.raises(ArchiveUnsafe, match="255 bytes, or 2048") as refused:
            unpacked(body, folder)
        assert len(str(refused.value)) < 1000


def test_folders_in_each_other_are_limited_and_counted(tmp_path: Path) -> None:
    for number, bomb in enumerate(
        (a_tar(member("a/" * 101 + "b")), a_zip({"a/" * 101 + "b": b""}))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(ArchiveUnsafe, match="100 folders"):
            unpacked(bomb, folder)
    (tmp_path / "counted").mkdir()
    with pytest.raises(ArchiveBomb, match="50 files"):
        unpacked(a_tar(member("a/" * 60 + "b")), tmp_path / "counted")


def test_a_size_below_zero_is_refused(tmp_path: Path) -> None:
    for number, header in enumerate((pax(record("size", "-1024")), b"")):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = bytes_in_tar(
            header, member("a", size=0 if header else -1024).tobuf(tarfile.GNU_FORMAT)
        )
        with pytest.raises(ArchiveUnsafe, match="size below 0"):
            unpacked(body, folder)


def test_xz_may_not_take_all_memory(tmp_path: Path) -> None:
    assert unpacked(xz_of_dictionary(28), tmp_path) == {"a": b""}  # 64 MiB, as of xz -9
    (tmp_path / "huge").mkdir()
    with pytest.raises(ArchiveBomb, match="memory to unpack xz; not unpacked; pack it by xz -9"):
        unpacked(xz_of_dictionary(40), tmp_path / "huge")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_packed_by_a_rare_method_is_refused(tmp_path: Path, method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a", bytes(100))
    with pytest.raises(ArchiveUnsafe, match=r"neither by deflate nor stored.*zip -r"):
        unpacked(out.getvalue(), tmp_path)


LONG = "/".join(["größe-的-" * 12, "ø" * 100, "file"])


@pytest.mark.usefixtures("any_python")
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_tar_of_long_names_is_unpacked(tmp_path: Path, mode: str, form: int) -> None:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode=mode, format=form, pax_headers={"comment": "a commit"}
    ) as archive:  # type: ignore[call-overload]
        file = member(LONG, size=2000)
        file.pax_headers = {"SCHILY.xattr.user.note": "x" * 3000, "mtime": "1.5"}
        archive.addfile(file, io.BytesIO(b"y" * 2000))
        archive.addfile(member(f"{LONG}-hard", tarfile.LNKTYPE, LONG))
        archive.addfile(member(f"{LONG}-soft", tarfile.SYMTYPE, "file"))
        archive.addfile(member("ü" * 90, tarfile.DIRTYPE))
    names = (LONG, f"{LONG}-hard", f"{LONG}-soft")
    assert unpacked(out.getvalue(), tmp_path) == dict.fromkeys(names, b"y" * 2000)
    assert (tmp_path / "into" / ("ü" * 90)).is_dir()


def test_a_size_of_a_pax_header_counts(tmp_path: Path) -> None:
    head = pax(record("size", "700"))
    body = bytes_in_tar(head, member("a").tobuf(), b"z" * 700, member("b", size=1).tobuf(), b"b")
    assert unpacked(body, tmp_path) == {"a": b"z" * 700, "b": b"b"}


def test_streams_of_xz_in_a_row_are_one_archive(tmp_path: Path) -> None:
    body = bytes_in_tar(member("a", size=5).tobuf(), b"12345")
    packed = lzma.compress(body[:700]) + bytes(8) + lzma.compress(body[700:])
    assert unpacked(packed, tmp_path) == {"a": b"12345"}


def test_an_xz_cut_short_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnreadable, match="cut short"):
        unpacked(lzma.compress(a_tar(member("a", size=5000)))[:-60], tmp_path)


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


@pytest.mark.parametrize(
    "end",
    [
        member("../up").tobuf(),
        sparse_tar(3),
        pax(b"") * 17 + member("a").tobuf(),
        pax(b"n" * 5000, tarfile.GNUTYPE_LONGNAME) + member("a").tobuf(),
    ],
    ids=["outside", "sparse", "headers", "long name"],
)
def test_a_bad_tar_leaves_nothing(assets: Assets, site: Site, tmp_path: Path, end: bytes) -> None:
    body = bytes_in_tar(member("ok", size=1).tobuf(), b"x")[:-1024] + bytes_in_tar(end)
    with pytest.raises((ArchiveUnsafe, ArchiveBomb)):
        assets.fetch_tree(*served(site, body))
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
    assert list((tmp_path / "cache" / "trees").glob("*/*")) == []


def test_a_bad_archive_leaves_nothing(assets: Assets, site: Site, tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnsafe):
        assets.fetch_tree(*served(site, a_zip({"ok": b"x", "../up": b"x"})))
    assert list((tmp_path / "cache" / "partial").iterdir()) == []
    assert list((tmp_path / "cache" / "trees").glob("*/*")) == []
