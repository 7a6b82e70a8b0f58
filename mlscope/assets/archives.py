"""Archives unpacked safely: zip, and tar plain or compressed by gzip, bzip2 or xz.

Nothing may lead out of the folder, by name or by link; devices are refused; how much may come out
is bounded. Links are judged here, for Python's own data filter resolves them on disk, which had
holes (CVE-2025-4517 and its kin); it is applied on top.
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
from mlscope.assets.options import Bounds

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


def unpack(archive: Path, into: Path, *, address: str, bounds: Bounds) -> int:
    """Unpack an archive into an empty folder and return the bytes that came out.

    After an error, what came out so far must not be used. Raises ArchiveUnreadable,
    ArchiveUnsafe, ArchiveBomb, CacheUnusable; `address` is what they call the archive.
    """
    meter = _Meter(address, bounds, archive.stat().st_size)
    names = _Names(address)
    try:
        if _is_zip(archive):
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
    """Counts what comes out."""

    address: str
    bounds: Bounds
    in_bytes: int
    out_bytes: int = 0
    files: int = 0

    def member(self) -> None:
        self.files += 1
        if self.files > self.bounds.most_files:
            raise ArchiveBomb(self.address, "files", self.bounds.most_files)

    def content(self, size_bytes: int) -> None:
        self.out_bytes += size_bytes
        if self.out_bytes > self.bounds.most_bytes:
            raise ArchiveBomb(self.address, "bytes", self.bounds.most_bytes)
        if self.out_bytes > max(self.bounds.free_bytes, self.bounds.ratio * self.in_bytes):
            raise ArchiveBomb(self.address, "times its own size", self.bounds.ratio)


@dataclass(slots=True)
class _Names:
    """The members so far: each path once, none below a file or link, no link out of the folder."""

    address: str
    folders: set[PurePosixPath] = field(default_factory=set)
    files: set[PurePosixPath] = field(default_factory=set)
    links: set[PurePosixPath] = field(default_factory=set)

    def path(self, name: str, *, is_folder: bool = False) -> PurePosixPath | None:
        """Return where a member goes, None for the folder itself. Raises ArchiveUnsafe."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ArchiveUnsafe(self.address, name, "leads out of its folder")
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
        """Return where a file goes. Raises ArchiveUnsafe."""
        path = self._placed(name)
        self.files.add(path)
        return path

    def symbolic(self, name: str, target: str) -> None:
        """Note a symbolic link; it may climb only at its start. Raises ArchiveUnsafe.

        No member lies below a link, so the folder a link is in is a real one: so many steps up
        lead where they seem to, and other links met on the way down have passed here too.
        """
        path, aim = self._placed(name), PurePosixPath(target)
        climbs = 0
        while climbs < len(aim.parts) and aim.parts[climbs] == "..":
            climbs += 1
        is_out = aim.is_absolute() or climbs > len(path.parts) - 1 or ".." in aim.parts[climbs:]
        if is_out or "\\" in target:
            raise ArchiveUnsafe(self.address, name, f"is a link to {target}, out of its folder")
        self.links.add(path)

    def hard(self, name: str, target: str) -> None:
        """Note a second name of an earlier file. Raises ArchiveUnsafe."""
        path = self._placed(name)
        if PurePosixPath(target) not in self.files:
            raise ArchiveUnsafe(self.address, name, f"is a link to {target}, no earlier member")
        self.files.add(path)

    def _placed(self, name: str) -> PurePosixPath:
        path = self.path(name)
        if path is None:
            raise ArchiveUnsafe(self.address, name, "is the folder itself, yet no folder")
        return path


def _is_zip(archive: Path) -> bool:
    """Tell by the first bytes: a tar's last member may be a zip, which is all its end shows."""
    with archive.open("rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")


def _unpack_zip(archive: Path, into: Path, names: _Names, meter: _Meter) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            meter.member()
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ArchiveUnsafe(names.address, member.filename, "is no plain file")
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
    if not hasattr(tarfile, "data_filter"):
        raise ArchiveUnreadable(names.address, "tar archives need Python 3.11.4 or newer")
    with (
        _decompressed(archive) as stream,
        tarfile.open(fileobj=stream, mode="r|", tarinfo=_bounded(meter)) as opened,
    ):
        for member in opened:
            meter.member()
            _judge(member, names)
            meter.content(member.size if member.isreg() else 0)
            opened.extract(member, into, set_attrs=member.isreg(), filter="data")


def _judge(member: tarfile.TarInfo, names: _Names) -> None:
    """Note a member of a tar archive. Raises ArchiveUnsafe."""
    if member.isdir():
        names.path(member.name, is_folder=True)
    elif member.isreg():
        names.file(member.name)
    elif member.issym():
        names.symbolic(member.name, member.linkname)
    elif member.islnk():
        names.hard(member.name, member.linkname)
    else:
        raise ArchiveUnsafe(names.address, member.name, "is a device or pipe")


def _bounded(meter: _Meter) -> type[tarfile.TarInfo]:
    """Return a class of members whose headers (long names, pax records) are of bounded size.

    `tarfile` reads those into memory whole, whatever size they claim.
    """

    class Bounded(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            member = super().frombuf(buf, encoding, errors)
            if member.type in _HEADERS and member.size > _LONGEST_HEADER_BYTES:
                raise ArchiveBomb(meter.address, "bytes of header", _LONGEST_HEADER_BYTES)
            return member

    return Bounded


@contextmanager
def _decompressed(archive: Path) -> Iterator[IO[bytes]]:
    """Open a tar archive, through what its first bytes say it is compressed by."""
    with ExitStack() as stack:
        raw = stack.enter_context(archive.open("rb"))
        start = raw.read(6)
        raw.seek(0)
        for magic, reader in _COMPRESSIONS:
            if start.startswith(magic):
                yield stack.enter_context(reader(raw))
                return
        yield raw
