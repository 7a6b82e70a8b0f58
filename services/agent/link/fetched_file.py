"""A file that the host fetched for a worker. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A fetched file, or the folder of an unpacked archive.

    `sha256` is that of the file or archive. `failure` says why an optional file could not be
    fetched; then `path` is empty.
    """

    path: Path
    sha256: str
    failure: str = ""


NO_FILES: Mapping[str, FetchedFile] = MappingProxyType({})
"""Nothing was fetched: every file lies below the manifests folder."""
