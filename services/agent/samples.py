"""Samples of files and sources: read when asked for, the first of them held in memory."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.assets.addresses import FileSource, parse
from mlscope.assets.errors import BadAddress
from mlscope.datasets.dataset import Dataset, Lazily
from mlscope.datasets.errors import BadRecord, DatasetError
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.truth import Truth
from schemas.manifest import DatasetManifest, Sample, Source
from services.agent.assets import AssetFolder, checked_digest
from services.agent.errors import (
    AssetUnusable,
    ChecksumMismatch,
    DatasetUnusable,
    PathEscapes,
)

HELD_BYTES = 64 << 20
"""Samples held in memory; what is beyond is read each time it is asked for."""

_MOST_HELD = 4096
_FIRST_TRIED = 64
"""Samples looked at for one that tells what they are like."""


class Held(Lazily[Any]):
    """Samples of which the first are kept, as many as fit; the truth of each is `truths`.

    Reading one raises DatasetError or AssetError, and only that one is lost.
    """

    def __init__(
        self,
        count: int,
        read: Callable[[int], Any],
        truths: Sequence[Truth | None],
        most_bytes: int = HELD_BYTES,
    ) -> None:
        """Read the first samples."""
        super().__init__(count, self._one)
        self._read, self.truths = read, truths
        self._kept: dict[int, Any] = {}
        left = most_bytes
        for index in range(min(count, _MOST_HELD)):
            try:
                sample = read(index)
            except DatasetError:
                continue
            left -= size_of(sample)
            if left < 0:
                break
            self._kept[index] = np.array(sample) if isinstance(sample, np.ndarray) else sample

    def name_of(self, index: int) -> str:
        """Return a sample's own name, as its file's; '' where none is known."""
        try:
            truth = self.truths[index]
        except (DatasetError, IndexError):
            return ""
        return truth.name if truth else ""

    @property
    def held(self) -> int:
        """Return how many samples are held in memory."""
        return len(self._kept)

    def _one(self, index: int) -> Any:
        return self._kept[index] if index in self._kept else self._read(index)


def size_of(sample: Any) -> int:
    """Return about how many bytes a sample takes."""
    if isinstance(sample, Mapping):
        return sum(size_of(each) for each in sample.values())
    if isinstance(sample, np.ndarray):
        return sample.nbytes
    if isinstance(sample, list | tuple):
        return sum(size_of(each) for each in sample)
    return len(sample) if isinstance(sample, bytes | str) else 8


def first_readable(dataset: str, samples: Sequence[Any]) -> Any:
    """Return the first sample that can be read. Raises DatasetUnusable when none of many can."""
    reasons = []
    for index in range(min(len(samples), _FIRST_TRIED)):
        try:
            return samples[index]
        except DatasetError as error:
            reasons.append(str(error))
    many = f"; nor the {len(reasons) - 1} after it" if len(reasons) > 1 else ""
    raise DatasetUnusable(dataset, f"{reasons[0] if reasons else 'holds no samples'}{many}")


def listed(dataset: DatasetManifest, folder: AssetFolder) -> Held:
    """Return the samples that a manifest lists; each is checked now. Raises AssetError."""
    for sample in dataset.samples:
        for path, sha256 in _files_of(sample).items():
            checked_digest(_located(path, folder), path, sha256, folder.checksums)
        if sample.content:
            sha256 = hashlib.sha256(_content(dataset.name, sample)).hexdigest()
            if sample.sha256 and sha256 != sample.sha256.removeprefix("sha256:"):
                raise ChecksumMismatch("content", sample.sha256, sha256)

    def read(index: int) -> Any:
        sample = dataset.samples[index]
        if sample.content:
            return _content(dataset.name, sample)
        files = {path: _again(path, index, folder) for path in _files_of(sample)}
        if not sample.inputs:
            return files[sample.path]
        return {name: files[each.path] for name, each in sample.inputs.items()}

    truths = Lazily(len(dataset.samples), lambda index: _truth(dataset.samples[index], index))
    return Held(len(dataset.samples), read, truths)


def sourced(dataset: DatasetManifest, source: Source, folder: AssetFolder) -> Held:
    """Return the samples of a source. Raises AssetError, DatasetUnusable."""
    path = _place_of(source, folder)
    brought = {address: each.lost or each.path for address, each in folder.brought.items()}
    try:
        found = open_dataset(
            source.reader,
            path,
            source.options,
            most_samples=source.most_samples,
            scratch=folder.scratch,
            brought=brought,
        )
    except DatasetError as error:
        raise DatasetUnusable(dataset.name, str(error)) from error
    if source.samples and len(found) != source.samples:
        reason = f"holds {len(found)} samples, its manifest says {source.samples}"
        raise DatasetUnusable(dataset.name, reason)
    return _held(found)


def _held(found: Dataset) -> Held:
    return Held(len(found), found.__getitem__, found.truths)


def _place_of(source: Source, folder: AssetFolder) -> Path:
    """Return where a source's dataset lies. Raises AssetError."""
    try:
        parsed = parse(source.address)
    except BadAddress as error:
        raise AssetUnusable(str(error)) from error
    if parsed.address in folder.brought:
        found = folder.found(parsed.address)
        if found.sha256:
            folder.checksums[parsed.address] = f"sha256:{found.sha256}"
        else:
            folder.notes.append(f"{parsed.address} is a folder in place: nobody checked its files")
        root = found.path
    elif isinstance(parsed, FileSource):
        root = folder.locate(parsed.path, folders=True)
        if root.is_file():
            checked_digest(root, parsed.path, source.checksum, folder.checksums)
    else:
        root = folder.found(parsed.address).path
    path = (root / source.path).resolve() if source.path else root
    if not path.is_relative_to(root.resolve()) and source.path:
        raise PathEscapes(source.path)
    return path


def _files_of(sample: Sample) -> Mapping[str, str]:
    if sample.inputs:
        return {each.path: each.sha256 for each in sample.inputs.values()}
    return {sample.path: sample.sha256} if sample.path else {}


def _located(path: str, folder: AssetFolder) -> Path:
    try:
        source = parse(path)
    except BadAddress as error:
        raise AssetUnusable(str(error)) from error
    if isinstance(source, FileSource):
        return folder.locate(source.path)
    return folder.found(source.address).path


def _again(path: str, index: int, folder: AssetFolder) -> bytes:
    """Return a file's bytes if it still is what was checked. Raises DatasetError."""
    try:
        body = _located(path, folder).read_bytes()
    except OSError as error:
        raise BadRecord(path, index, error.strerror or str(error)) from error
    if folder.checksums.get(path) != f"sha256:{hashlib.sha256(body).hexdigest()}":
        raise BadRecord(path, index, "was altered while it was in use")
    return body


def _content(dataset: str, sample: Sample) -> bytes:
    try:
        return base64.b64decode(sample.content, validate=True)
    except binascii.Error as error:
        raise DatasetUnusable(dataset, f"content of a sample is no base64: {error}") from error


def _truth(sample: Sample, index: int) -> Truth | None:
    if not sample.labels and not sample.classes:
        return None
    name = sample.path.rpartition("/")[2] or ", ".join(_files_of(sample)) or str(index)
    return Truth(name, sample.classes, sample.labels)
