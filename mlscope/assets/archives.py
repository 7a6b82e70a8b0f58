"""Unpacks archives safely: zip, and tar, plain or compressed by gzip, bzip2 or xz.

No member may lead out of the folder, by its name or as a link; devices and sparse files are
refused. All that is decompressed is counted when it is read, headers too (`tar_headers`), and what
is held in memory is limited. Links are checked here, because Python's own data filter resolves them
on disk, which had security holes (CVE-2025-4517 and related ones). That filter is applied as well,
by Pythons that have it: 3.11.2, which is Debian 12's, has none, and there files keep no mode.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mlscope.assets.errors import ArchiveBomb, ArchiveUnreadable, ArchiveUnsafe, CacheUnusable
from mlscope.assets.options import UnpackLimits
from mlscope.assets.tar_headers import reader_of_headers

_BLOCK_BYTES = 1 << 20
_LONGEST_NAME_BYTES = 2048
_LONGEST_PART_BYTES = 255
"""What Linux allows as the name of a file."""
_DEEPEST = 100
"""Folders in each other: Python removes them by recursion."""
_MOST_IN_ZIP = 500_000
_LONGEST_DIRECTORY_BYTES = 128 << 20
"""A zip's directory, which `zipfile` holds in memory: about 0.7 kB an entry."""
_DIRECTORY_ENTRY = b"PK\1\2"
ZIP_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""How members of a zip are packed; `zipfile` limits what it unpacks at once only of these."""
_XZ_MEMORY_BYTES = 128 << 20
"""`xz -9` needs 65 MiB to unpack."""
_PACKED_BYTES = 8192
"""Read at once of an xz file: what is left of it is copied at the end of each of its streams."""
_IS_PACKED_RARELY = "is packed neither by deflate nor stored: make the archive with zip -r"
_USE_TAR = "make a .tar.gz instead"
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
    names = _Names(address, meter)
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
    return meter.content_bytes


@dataclass(slots=True)
class _Meter:
    """Counts what an archive has and unpacks to, and raises ArchiveBomb beyond the limits."""

    address: str
    limits: UnpackLimits
    in_bytes: int
    #: of the files in it
    content_bytes: int = 0
    #: all that was decompressed: headers and padding too
    read_bytes: int = 0
    #: and folders and links, also folders that only a name has
    files: int = 0

    def member(self) -> None:
        self.files += 1
        if self.files > self.limits.max_files:
            raise ArchiveBomb(self.address, "files", self.limits.max_files)

    def content(self, size_bytes: int) -> None:
        """Count the content of a file before it is written."""
        self.content_bytes += size_bytes
        self._check(self.content_bytes)

    def read(self, size_bytes: int) -> None:
        """Count what was decompressed."""
        self.read_bytes += size_bytes
        self._check(self.read_bytes)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self.limits.max_bytes:
            raise ArchiveBomb(self.address, "bytes", self.limits.max_bytes)
        if size_bytes > max(self.limits.free_bytes, self.limits.ratio * self.in_bytes):
            raise ArchiveBomb(self.address, "times its own size", self.limits.ratio)


@dataclass(slots=True)
class _Names:
    """The members so far; checks that each path is unique, not below a file or link, and inside.

    Paths are kept as digests, so that two million long ones fit into memory.
    """

    address: str
    meter: _Meter
    folders: set[bytes] = field(default_factory=set)
    files: set[bytes] = field(default_factory=set)
    links: set[bytes] = field(default_factory=set)

    def path(self, name: str, *, is_folder: bool = False) -> PurePosixPath | None:
        """Return the path of a member, None for the folder itself. Raises ArchiveUnsafe."""
        self._require_short(name)
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ArchiveUnsafe(self.address, name, "leads outside its folder")
        if not path.parts:
            return None
        *parents, own = _digests(path)
        for parent in parents:
            if parent in self.files or parent in self.links:
                raise ArchiveUnsafe(self.address, name, "lies below a file or link")
        if own in self.files or own in self.links or (own in self.folders and not is_folder):
            raise ArchiveUnsafe(self.address, name, "comes twice")
        for parent in parents:
            if parent not in self.folders:
                self.meter.member()
                self.folders.add(parent)
        if is_folder:
            self.folders.add(own)
        return path

    def _require_short(self, name: str) -> None:
        """Raise ArchiveUnsafe for a name that no file can have, or in too many folders."""
        encoded = name.encode(errors="surrogateescape")
        parts = encoded.split(b"/")
        if len(encoded) > _LONGEST_NAME_BYTES or max(map(len, parts)) > _LONGEST_PART_BYTES:
            most = f"{_LONGEST_PART_BYTES} bytes, or {_LONGEST_NAME_BYTES} with its folders"
            raise ArchiveUnsafe(self.address, name, f"has a name of more than {most}: shorten it")
        if len(parts) > _DEEPEST:
            reason = f"is in more than {_DEEPEST} folders: move it up"
            raise ArchiveUnsafe(self.address, name, reason)

    def file(self, name: str) -> PurePosixPath:
        """Note a file and return its path. Raises ArchiveUnsafe."""
        path = self._path_inside(name)
        self.files.add(_digests(path)[-1])
        return path

    def symbolic(self, name: str, target: str) -> None:
        """Note a symbolic link; `..` may only be at the start of its target. Raises ArchiveUnsafe.

        No member lies below a link, so a link is in a real folder: each `..` leads to the real
        parent folder, and other links on the way down were checked here as well.
        """
        self._require_short(target)
        path, aim = self._path_inside(name), PurePosixPath(target)
        climbs = 0
        while climbs < len(aim.parts) and aim.parts[climbs] == "..":
            climbs += 1
        is_out = aim.is_absolute() or climbs > len(path.parts) - 1 or ".." in aim.parts[climbs:]
        if is_out or "\\" in target:
            raise ArchiveUnsafe(self.address, name, f"is a link to {target}, outside its folder")
        self.links.add(_digests(path)[-1])

    def hard(self, name: str, target: str) -> None:
        """Note a second name of an earlier file. Raises ArchiveUnsafe."""
        self._require_short(target)
        path, aim = self._path_inside(name), PurePosixPath(target)
        if not aim.parts or aim.is_absolute() or _digests(aim)[-1] not in self.files:
            raise ArchiveUnsafe(
                self.address, name, f"is a link to {target}, which is not an earlier member"
            )
        self.files.add(_digests(path)[-1])

    def _path_inside(self, name: str) -> PurePosixPath:
        path = self.path(name)
        if path is None:
            raise ArchiveUnsafe(self.address, name, "names the folder itself but is not a folder")
        return path


def _digests(path: PurePosixPath) -> list[bytes]:
    """Return the digest of each folder above a path, from the outermost one, and its own."""
    digest, digests = hashlib.blake2b(digest_size=16), []
    for part in path.parts:
        digest.update(part.encode(errors="surrogateescape") + b"/")
        digests.append(digest.digest())
    return digests


def _unpack_zip(archive: Path, into: Path, names: _Names, meter: _Meter) -> None:
    with opened_zip(archive, names.address, meter.limits.max_files) as opened:
        for member in opened.infolist():
            meter.member()
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ArchiveUnsafe(names.address, member.filename, "is not a regular file")
            if member.is_dir():
                if (folder := names.path(member.filename, is_folder=True)) is not None:
                    (into / folder).mkdir(parents=True, exist_ok=True)
                continue
            if member.compress_type not in ZIP_METHODS:
                raise ArchiveUnsafe(names.address, member.filename, _IS_PACKED_RARELY)
            target = into / names.file(member.filename)
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, target.open("xb") as out:
                while block := source.read(_BLOCK_BYTES):
                    meter.content(len(block))
                    out.write(block)


@contextmanager
def opened_zip(
    archive: Path, address: str, most_files: int = _MOST_IN_ZIP
) -> Iterator[zipfile.ZipFile]:
    """Open the zip at `archive`, which came from `address`, unless its directory is too long.

    It has up to `most_files` members. Raises ArchiveBomb, and what `zipfile` raises.
    """
    with _ZipFile(archive, address, most_files) as file, zipfile.ZipFile(file) as opened:
        file.is_directory_read = True
        yield opened


class _ZipFile(io.FileIO):
    """The file of a zip, of which no long directory is read: `zipfile` parses all of it at once."""

    def __init__(self, archive: Path, address: str, most_files: int) -> None:
        super().__init__(archive, "rb")
        self._address, self._most_files = address, most_files
        self.is_directory_read = False

    def read(self, size_bytes: int | None = -1, /) -> bytes:
        """Return up to `size_bytes`. Raises ArchiveBomb."""
        if not self.is_directory_read and (size_bytes or 0) > _LONGEST_DIRECTORY_BYTES:
            most = _LONGEST_DIRECTORY_BYTES >> 20
            raise ArchiveBomb(self._address, "MiB of directory", most, _USE_TAR)
        data = super().read(-1 if size_bytes is None else size_bytes) or b""
        if not self.is_directory_read:
            most = min(self._most_files, _MOST_IN_ZIP)
            if data.count(_DIRECTORY_ENTRY) > most:
                fix = _USE_TAR if self._most_files > _MOST_IN_ZIP else ""
                raise ArchiveBomb(self._address, "files", most, fix)
        return data


def _unpack_tar(archive: Path, into: Path, names: _Names, meter: _Meter) -> None:
    headers = reader_of_headers(meter.address)
    with (
        _decompressed(archive, meter) as stream,
        tarfile.TarFile(fileobj=stream, tarinfo=headers, encoding="utf-8") as opened,
    ):
        seen: list[tarfile.TarInfo] = vars(opened)["members"]
        while (member := opened.next()) is not None:
            seen.clear()  # Else all of them stay in memory.
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
def _decompressed(archive: Path, meter: _Meter) -> Iterator[Any]:
    """Open a tar archive and decompress it as its first bytes require, counted by `meter`."""
    with ExitStack() as stack:
        raw = stack.enter_context(archive.open("rb"))
        start = raw.read(6)
        raw.seek(0)
        reader: Any = raw
        if start.startswith(b"\x1f\x8b"):
            reader = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif start.startswith(b"BZh"):
            reader = stack.enter_context(bz2.BZ2File(raw))
        elif start.startswith(b"\xfd7zXZ\0"):
            reader = io.BufferedReader(_Xz(raw, meter.address), _BLOCK_BYTES)
        yield _Counted(reader, meter)


class _Counted:
    """A stream that is only read forward, whose bytes are counted when they are read."""

    def __init__(self, stream: IO[bytes], meter: _Meter) -> None:
        self._stream, self._meter = stream, meter
        self._at_bytes = 0

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._at_bytes

    def read(self, size_bytes: int) -> bytes:
        """Return the next `size_bytes`, fewer at the end. Raises ArchiveBomb."""
        data = self._stream.read(size_bytes)
        self._at_bytes += len(data)
        self._meter.read(len(data))
        return data

    def seek(self, at_bytes: int) -> int:
        """Read up to a position. Raises ReadError for one that was passed, ArchiveBomb."""
        if at_bytes < self._at_bytes:
            raise tarfile.ReadError("a member leads back in the archive")
        while self._at_bytes < at_bytes:
            if not self.read(min(_BLOCK_BYTES, at_bytes - self._at_bytes)):
                break
        return self._at_bytes


class _Xz(io.RawIOBase):
    """Decompresses xz, which `lzma.LZMAFile` does with whatever memory the file asks for."""

    def __init__(self, file: IO[bytes], address: str) -> None:
        self._file, self._address = file, address
        self._decompressor = self._begun()

    def readable(self) -> bool:
        """Say that this is read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a part of the `buffer`, 0 bytes at the end. Raises ArchiveBomb, EOFError."""
        unpacked = b""
        while not unpacked:
            packed = b""
            if self._decompressor.eof:
                # Another stream may follow, and zeros before it.
                packed = self._decompressor.unused_data.lstrip(b"\0")
                while not packed:
                    if not (block := self._file.read(_PACKED_BYTES)):
                        return 0
                    packed = block.lstrip(b"\0")
                self._decompressor = self._begun()
            elif self._decompressor.needs_input and not (packed := self._file.read(_PACKED_BYTES)):
                raise EOFError("it is cut short")
            unpacked = self._decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)

    def _begun(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)

    def _decompress(self, packed: bytes, most_bytes: int) -> bytes:
        try:
            return self._decompressor.decompress(packed, most_bytes)
        except lzma.LZMAError as error:
            if "emory" not in str(error):
                raise
            measure, fix = "MiB of memory to unpack xz", "pack it by xz -9 or less"
            raise ArchiveBomb(self._address, measure, _XZ_MEMORY_BYTES >> 20, fix) from error
