"""Unpacks archives safely: zip, and tar, plain or compressed by gzip, bzip2 or xz.

No member may lead out of the folder, by its name or as a link; devices are refused; the amount of
unpacked data is limited. Links are checked here, because Python's own data filter resolves them on
disk, which had security holes (CVE-2025-4517 and related ones). That filter is applied as well, by
Pythons that have it: 3.11.2, which is Debian 12's, has none, and there files keep no mode.
"""

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

from mlscope.assets.errors import ArchiveBomb, ArchiveUnreadable, ArchiveUnsafe, CacheUnusable
from mlscope.assets.options import UnpackLimits

_BLOCK_BYTES = 1 << 20
_LONGEST_HEADER_BYTES = 1 << 20
_HEADERS = frozenset({b"x", b"g", b"X", b"L", b"K"})
_COMPRESSIONS: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    gzip.BadGzipFile,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    OverflowError,
)


def unpack(archive: Path, into: Path, *, address: str, limits: UnpackLimits) -> int:
    """Unpack `archive` into the empty folder `into` and return the number of bytes unpacked.

    `address` names the archive in errors; `limits` bound the unpacked data. After an error the
    folder must not be used. Raises ArchiveUnreadable, ArchiveUnsafe, ArchiveBomb, CacheUnusable.
    """
    meter = _Meter(address, limits, archive.stat().st_size)
    names = _Names(address)
    try:
        with archive.open("rb") as file:
            # By the first bytes: a tar whose last member is a zip ends like a zip.
            is_zip = file.read(4) in (b"PK\3\4", b"PK\5\6")
        if is_zip:
            _unpack_zip(archive, into, names, meter)
        else:
            _unpack_tar(archive, into, names, meter)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise CacheUnusable(str(into), error.strerror or str(error)) from error
        raise ArchiveUnreadable(address, str(error) or type(error).__name__) from error
    return meter.out_bytes


@dataclass(slots=True)
class _Meter:
    """Counts members and unpacked bytes, and raises ArchiveBomb beyond the limits."""

    address: str
    limits: UnpackLimits
    in_bytes: int
    out_bytes: int = 0
    files: int = 0

    def member(self) -> None:
        self.files += 1
        if self.files > self.limits.max_files:
            raise ArchiveBomb(self.address, "files", self.limits.max_files)

    def content(self, size_bytes: int) -> None:
        self.out_bytes += size_bytes
        if self.out_bytes > self.limits.max_bytes:
            raise ArchiveBomb(self.address, "bytes", self.limits.max_bytes)
        if self.out_bytes > max(self.limits.free_bytes, self.limits.ratio * self.in_bytes):
            raise ArchiveBomb(self.address, "times its own size", self.limits.ratio)


@dataclass(slots=True)
class _Names:
    """The members so far; checks that each path is unique, not below a file or link, and inside."""

    address: str
    folders: set[PurePosixPath] = field(default_factory=set)
    files: set[PurePosixPath] = field(default_factory=set)
    links: set[PurePosixPath] = field(default_factory=set)

    def path(self, name: str, *, is_folder: bool = False) -> PurePosixPath | None:
        """Return the path of a member, None for the folder itself. Raises ArchiveUnsafe."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ArchiveUnsafe(self.address, name, "leads outside its folder")
        if not path.parts:
            return None
        for parent in path.parents:
            if parent in self.files or parent in self.links:
                raise ArchiveUnsafe(self.address, name, "lies below a file or link")
        if path in self.files or path in self.links or (path in self.folders and not is_folder):
            raise ArchiveUnsafe(self.address, name, "comes twice")
        self.folders.update(path.parents if not is_folder else (path, *path.parents))
        return path

    def file(self, name: str) -> PurePosixPath:
        """Note a file and return its path. Raises ArchiveUnsafe."""
        path = self._path_inside(name)
        self.files.add(path)
        return path

    def symbolic(self, name: str, target: str) -> None:
        """Note a symbolic link; `..` may only be at the start of its target. Raises ArchiveUnsafe.

        No member lies below a link, so a link is in a real folder: each `..` leads to the real
        parent folder, and other links on the way down were checked here as well.
        """
        path, aim = self._path_inside(name), PurePosixPath(target)
        climbs = 0
        while climbs < len(aim.parts) and aim.parts[climbs] == "..":
            climbs += 1
        is_out = aim.is_absolute() or climbs > len(path.parts) - 1 or ".." in aim.parts[climbs:]
        if is_out or "\\" in target:
            raise ArchiveUnsafe(self.address, name, f"is a link to {target}, outside its folder")
        self.links.add(path)

    def hard(self, name: str, target: str) -> None:
        """Note a second name of an earlier file. Raises ArchiveUnsafe."""
        path = self._path_inside(name)
        if PurePosixPath(target) not in self.files:
            raise ArchiveUnsafe(
                self.address, name, f"is a link to {target}, which is not an earlier member"
            )
        self.files.add(path)

    def _path_inside(self, name: str) -> PurePosixPath:
        path = self.path(name)
        if path is None:
            raise ArchiveUnsafe(self.address, name, "names the folder itself but is not a folder")
        return path


def _unpack_zip(archive: Path, into: Path, names: _Names, meter: _Meter) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            meter.member()
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ArchiveUnsafe(names.address, member.filename, "is not a regular file")
            if member.is_dir():
                if (folder := names.path(member.filename, is_folder=True)) is not None:
                    (into / folder).mkdir(parents=True, exist_ok=True)
                continue
            target = into / names.file(member.filename)
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, target.open("xb") as file:
                while block := source.read(_BLOCK_BYTES):
                    meter.content(len(block))
                    file.write(block)


def _unpack_tar(archive: Path, into: Path, names: _Names, meter: _Meter) -> None:
    class BoundedHeader(tarfile.TarInfo):
        """Limits headers (long names, pax records), which `tarfile` reads into memory."""

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            member = super().frombuf(buf, encoding, errors)
            if member.type in _HEADERS and member.size > _LONGEST_HEADER_BYTES:
                raise ArchiveBomb(meter.address, "bytes of header", _LONGEST_HEADER_BYTES)
            return member

    with (
        _decompressed(archive) as stream,
        tarfile.open(fileobj=stream, mode="r|", tarinfo=BoundedHeader) as opened,
    ):
        for member in opened:
            _check_tar_member(member, names, meter)
            if hasattr(tarfile, "data_filter"):
                opened.extract(member, into, set_attrs=member.isreg(), filter="data")
            else:
                opened.extract(member, into, set_attrs=False)


def _check_tar_member(member: tarfile.TarInfo, names: _Names, meter: _Meter) -> None:
    """Note a member before it is unpacked. Raises ArchiveUnsafe and ArchiveBomb."""
    meter.member()
    if member.isdir():
        names.path(member.name, is_folder=True)
    elif member.isreg():
        names.file(member.name)
        meter.content(member.size)
    elif member.issym():
        names.symbolic(member.name, member.linkname)
    elif member.islnk():
        names.hard(member.name, member.linkname)
    else:
        raise ArchiveUnsafe(names.address, member.name, "is a device or pipe")


@contextmanager
def _decompressed(archive: Path) -> Iterator[IO[bytes]]:
    """Open a tar archive and decompress it as its first bytes require."""
    with ExitStack() as stack:
        raw = stack.enter_context(archive.open("rb"))
        start = raw.read(6)
        raw.seek(0)
        readers = (reader for magic, reader in _COMPRESSIONS if start.startswith(magic))
        reader = next(readers, None)
        yield raw if reader is None else stack.enter_context(reader(raw))
