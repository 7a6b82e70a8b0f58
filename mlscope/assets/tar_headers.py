"""Reads the headers of a tar for `tarfile`, within limits.

`tarfile` itself can be made to take hours and gigabytes for one extended header: CVE-2024-6232 is
one way, a map of a sparse file another. Such files are refused.
"""

import tarfile
from collections.abc import Mapping
from typing import Any, Self

from mlscope.assets.errors import ArchiveBomb, ArchiveUnreadable, ArchiveUnsafe

_LONGEST_HEADER_BYTES = 1 << 20
"""All extended headers of one member."""
_MOST_HEADERS = 16
"""Extended headers of one member: tars write up to four."""
_TAR_BLOCK_BYTES = 512
_LONG_NAMES = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_PAX_HEADERS = frozenset({tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE})
_IS_SPARSE = (
    "is a sparse file: make the archive without them (GNU tar: leave out --sparse, bsdtar: "
    "--no-read-sparse)"
)
_FEWER_HEADERS = "make the archive without extended attributes and with shorter names"


def reader_of_headers(address: str) -> type[tarfile.TarInfo]:
    """Return the class by which `tarfile` reads headers: within limits, and no sparse files.

    `address` names the archive in errors.
    """

    class Header(tarfile.TarInfo):
        @classmethod
        def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
            """Return the next member, with what its extended headers say. Raises FetchError."""
            stream: Any = archive.fileobj
            member, fields = cls._next(archive), dict[str, str]()
            offset, header_bytes, headers = stream.tell() - _TAR_BLOCK_BYTES, 0, 0
            while member.type in _PAX_HEADERS or member.type in _LONG_NAMES:
                header_bytes, headers = header_bytes + member.size, headers + 1
                if header_bytes > _LONGEST_HEADER_BYTES or headers > _MOST_HEADERS:
                    _refuse_headers(address, headers)
                body = stream.read(_in_blocks(member.size))[: member.size]
                if member.type in _LONG_NAMES:
                    text = body.partition(b"\0")[0].decode("utf-8", "surrogateescape")
                    fields[_LONG_NAMES[member.type]] = text
                else:
                    pax_fields = _pax_fields(body, address)
                    if pax_fields and member.type == tarfile.XGLTYPE:
                        fault = "one header gives all members a name, a size or a sparse map"
                        raise ArchiveUnreadable(address, f"{fault}; make it again by tar -c")
                    fields |= pax_fields
                try:
                    member = cls._next(archive)
                except tarfile.HeaderError as error:
                    raise tarfile.ReadError("it ends after an extended header") from error
            member.take(fields)
            member.offset, member.offset_data = offset, stream.tell()
            has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
            archive.offset = member.offset_data + (_in_blocks(member.size) if has_content else 0)
            return member

        @classmethod
        def _next(cls, archive: tarfile.TarFile) -> Self:
            stream: Any = archive.fileobj
            member = cls.frombuf(stream.read(_TAR_BLOCK_BYTES), "utf-8", "surrogateescape")
            _require_size(member.size, address, member.name)
            return member

        def take(self, fields: Mapping[str, str]) -> None:
            """Take the values of extended headers. Raises ArchiveUnsafe."""
            self.name = fields.get("path", self.name)
            self.linkname = fields.get("linkpath", self.linkname)
            if self.isdir():
                self.name = self.name.rstrip("/")
            if self.type == tarfile.GNUTYPE_SPARSE or any(
                key.startswith("GNU.sparse.") for key in fields
            ):
                raise ArchiveUnsafe(address, fields.get("GNU.sparse.name", self.name), _IS_SPARSE)
            if "size" in fields:
                self.size = int(fields["size"])
                _require_size(self.size, address, self.name)

    return Header


def _pax_fields(body: bytes, address: str) -> dict[str, str]:
    """Return what a pax header says of its member: its names, its size, and whether it is sparse.

    Raises ArchiveUnreadable.
    """
    fields, start = dict[str, str](), 0
    while start < len(body) and body[start]:
        space = body.find(b" ", start, start + 8)
        length = body[start : max(space, start)]
        end = start + int(length) if length.isdigit() else 0
        equals = body.find(b"=", space + 1, end)
        if not space + 1 < equals < end <= len(body) or body[end - 1 : end] != b"\n":
            raise ArchiveUnreadable(address, "a pax header is damaged; make the archive again")
        keyword = body[space + 1 : equals].decode("utf-8", "surrogateescape")
        if keyword in ("path", "linkpath", "size") or keyword.startswith("GNU.sparse."):
            fields[keyword] = body[equals + 1 : end - 1].decode("utf-8", "surrogateescape")
        start = end
    return fields


def _refuse_headers(address: str, headers: int) -> None:
    """Raise ArchiveBomb for the extended headers of a member."""
    if headers > _MOST_HEADERS:
        measure = "extended headers of a member"
        raise ArchiveBomb(address, measure, _MOST_HEADERS, _FEWER_HEADERS)
    most = _LONGEST_HEADER_BYTES >> 20
    raise ArchiveBomb(address, "MiB of headers of a member", most, _FEWER_HEADERS)


def _require_size(size_bytes: int, address: str, name: str) -> None:
    """Raise ArchiveUnsafe for the size of a member below 0, which would lead back in the file."""
    if size_bytes < 0:
        raise ArchiveUnsafe(address, name, "has a size below 0: make the archive again")


def _in_blocks(size_bytes: int) -> int:
    """Return the bytes of the whole blocks of tar that `size_bytes` take."""
    return -(-size_bytes // _TAR_BLOCK_BYTES) * _TAR_BLOCK_BYTES
