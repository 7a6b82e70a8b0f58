"""What a reader is given: a file or folder, its options, and room to unpack."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mlscope.datasets.dataset import Dataset, shown
from mlscope.datasets.options import Options


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dataset is and how it is to be read."""

    path: Path
    options: Options
    #: a folder to unpack into; None: the system's own for such files
    scratch: Path | None = None
    #: files by the address that leads to them, or why one could not be had
    brought: Mapping[str, Path | str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the folder that paths inside the dataset start from."""
        return self.path if self.path.is_dir() else self.path.parent

    def shown(self, path: Path) -> str:
        """Return how errors call a file of the dataset."""
        return shown(path, self.path)

    def room(self) -> IO[bytes]:
        """Return a file to unpack into; it vanishes when it is closed, and mapped, is unmapped."""
        return tempfile.TemporaryFile(dir=self.scratch)


Reader = Callable[[Place], Dataset]
