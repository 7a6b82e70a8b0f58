"""The file of a backup: a zip with a manifest, in which each entry has its sha256 (I/O)."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from mlscope.backup.errors import BrokenBackup

FORMAT = 1
_MANIFEST = "manifest.json"
_READ_BYTES = 1 << 20


@dataclass(slots=True)
class Contents:
    """What a backup holds: its manifest.

    `streams` has each stream's configuration and state by name; `tables` each table's columns;
    `migrations` the versions of the schemas, by component; `sha256` the digest of each entry.
    """

    made_by: str
    made_at: str
    format: int = FORMAT
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    migrations: dict[str, list[str]] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)


_CONTENTS = TypeAdapter(Contents)


class _Digesting:
    """A file of the archive that is being written, with the digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Write more."""
        self.digest.update(data)
        self._file.write(data)


class Writer:
    """Writes the entries of a backup."""

    def __init__(self, archive: zipfile.ZipFile, contents: Contents) -> None:
        """Write into `archive`; digests go into `contents`."""
        self.contents = contents
        self._archive = archive

    @contextmanager
    def entry(self, name: str) -> Iterator[_Digesting]:
        """Open the entry `name` for writing, once."""
        with self._archive.open(name, "w", force_zip64=True) as file:
            digesting = _Digesting(file)
            yield digesting
        self.contents.sha256[name] = digesting.digest.hexdigest()


@contextmanager
def writing(path: Path, contents: Contents) -> Iterator[Writer]:
    """Write a backup of `contents` to `path`, which has it whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    # Of an earlier backup that was killed, or put there by another user of a shared folder.
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                yield Writer(archive, contents)
                archive.writestr(_MANIFEST, json.dumps(asdict(contents), indent=1))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class Reader:
    """A whole backup, open for reading."""

    def __init__(self, archive: zipfile.ZipFile, contents: Contents) -> None:
        """Read from `archive`, whose manifest is `contents`."""
        self.contents = contents
        self._archive = archive

    def chunks(self, name: str, size_bytes: int = _READ_BYTES) -> Iterator[bytes]:
        """Yield the entry `name` in chunks of up to `size_bytes`."""
        with self._archive.open(name) as file:
            while chunk := file.read(size_bytes):
                yield chunk


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Open a backup, once all its entries were read and are as written. Raises BrokenBackup."""
    try:
        with zipfile.ZipFile(path) as archive:
            contents = _CONTENTS.validate_python(json.loads(archive.read(_MANIFEST)))
            reader = Reader(archive, contents)
            for name, sha256 in contents.sha256.items():
                digest = hashlib.sha256()
                for chunk in reader.chunks(name):
                    digest.update(chunk)
                if digest.hexdigest() != sha256:
                    raise BrokenBackup(f"{name} does not match its checksum")
            yield reader
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, RecursionError) as error:
        raise BrokenBackup(str(error)) from error
