"""What a reader gets: a file or folder, the reader's options, and room to unpack files."""

import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from mlscope.datasets.dataset import Dataset, shown
from mlscope.datasets.errors import ScratchFull
from mlscope.datasets.options import Options


@dataclass(slots=True)
class BoundedFolder:
    """A folder whose files may have `most_bytes` together; `used_bytes` have been written."""

    path: Path
    most_bytes: int
    used_bytes: int = 0


class _BoundedFile(io.BufferedRandom):
    """A scratch file that counts what is written, and raises ScratchFull beyond its bound."""

    def __init__(self, folder: BoundedFolder) -> None:
        # On POSIX a file without a buffer is a raw one.
        raw: Any = tempfile.TemporaryFile(dir=folder.path, buffering=0)  # noqa: SIM115
        super().__init__(raw)
        self._folder = folder

    def write(self, data: Any) -> int:
        """Write the bytes `data`. Raises ScratchFull."""
        self._folder.used_bytes += len(data)
        if self._folder.used_bytes > self._folder.most_bytes:
            raise ScratchFull(self._folder.most_bytes)
        return super().write(data)


@dataclass(frozen=True, slots=True)
class ReaderInput:
    """Where a dataset lies and how to read it."""

    path: Path
    options: Options
    #: a folder to unpack files into; None is the system's folder for temporary files
    scratch: Path | BoundedFolder | None = None
    #: by address: the fetched file, or why it could not be fetched
    fetched: Mapping[str, Path | str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the folder that paths inside the dataset start from."""
        return self.path if self.path.is_dir() else self.path.parent

    def shown(self, path: Path) -> str:
        """Return the name that errors use for a file of the dataset."""
        return shown(path, self.path)

    def scratch_file(self) -> IO[bytes]:
        """Return a file to unpack into. The system deletes it once it is closed and unmapped.

        Writing to it raises ScratchFull beyond the bound of a BoundedFolder.
        """
        if isinstance(self.scratch, BoundedFolder):
            return _BoundedFile(self.scratch)
        return tempfile.TemporaryFile(dir=self.scratch)

    # Names of release 0.1, for readers in other packages. Release 0.3 drops them.

    @property
    def brought(self) -> Mapping[str, Path | str]:
        """Return `fetched`, under its name of release 0.1."""
        return self.fetched

    def room(self) -> IO[bytes]:
        """Return `scratch_file()`, under its name of release 0.1."""
        return self.scratch_file()


Reader = Callable[[ReaderInput], Dataset]
