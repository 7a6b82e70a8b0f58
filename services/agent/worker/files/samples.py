"""Samples of files and sources: read on demand, the first of them cached in memory."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.assets.addresses import FileSource, parse
from mlscope.assets.errors import BadAddress
from mlscope.datasets.dataset import LazySequence
from mlscope.datasets.errors import BadRecord, DatasetError
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.truth import Truth
from schemas.manifest import DatasetManifest, Sample, Source
from services.agent.errors import (
    DatasetUnusable,
    FetchFailed,
    PathOutsideManifests,
    WrongChecksum,
)
from services.agent.link.checked_files import note_checked_sha256
from services.agent.worker.files.model_files import AssetFolder

CACHED_BYTES = 64 << 20
"""Bytes of samples cached in memory; the others are read each time."""

_MOST_CACHED = 4096
_MOST_TRIED = 64
"""Samples tried for one that can be read."""


class CachedSamples(LazySequence[Any]):
    """Samples of which the first are cached, as many as fit; `truths` are their ground truths.

    Reading one raises DatasetError or FileUnusable, and only that sample is lost.
    """

    def __init__(
        self,
        count: int,
        read: Callable[[int], Any],
        truths: Sequence[Truth | None],
        most_bytes: int = CACHED_BYTES,
    ) -> None:
        """Read the first of `count` samples with `read`, up to `most_bytes`."""

        def sample_at(index: int) -> Any:
            return self._cache[index] if index in self._cache else read(index)

        super().__init__(count, sample_at)
        self.truths = truths
        self._cache: dict[int, Any] = {}
        free_bytes = most_bytes
        for index in range(min(count, _MOST_CACHED)):
            try:
                sample = read(index)
            except DatasetError:
                continue
            free_bytes -= size_of(sample)
            if free_bytes < 0:
                break
            self._cache[index] = np.array(sample) if isinstance(sample, np.ndarray) else sample

    def name_of(self, index: int) -> str:
        """Return a sample's own name, as that of its file; '' where it is unknown."""
        try:
            truth = self.truths[index]
        except (DatasetError, IndexError):
            return ""
        return truth.name if truth else ""

    @property
    def cached(self) -> int:
        """How many samples are cached in memory."""
        return len(self._cache)


def size_of(sample: Any) -> int:
    """Return about how many bytes a sample takes."""
    if isinstance(sample, Mapping):
        return sum(size_of(value) for value in sample.values())
    if isinstance(sample, np.ndarray):
        return sample.nbytes
    if isinstance(sample, list | tuple):
        return sum(size_of(value) for value in sample)
    return len(sample) if isinstance(sample, bytes | str) else 8


def first_readable(dataset: str, samples: Sequence[Any]) -> Any:
    """Return the first sample that can be read. Raises DatasetUnusable when none of many can."""
    reasons = []
    for index in range(min(len(samples), _MOST_TRIED)):
        try:
            return samples[index]
        except DatasetError as error:
            reasons.append(str(error))
    suffix = f"; nor the {len(reasons) - 1} after it" if len(reasons) > 1 else ""
    raise DatasetUnusable(dataset, f"{reasons[0] if reasons else 'holds no samples'}{suffix}")


def check_samples(dataset: DatasetManifest, folder: AssetFolder) -> None:
    """Check the files and the contents that a manifest lists. Raises FileUnusable."""
    for sample in dataset.samples:
        for path, sha256 in _checksums_of(sample).items():
            note_checked_sha256(_locate(path, folder), path, sha256, folder.checksums)
        if not sample.content:
            continue
        sha256 = hashlib.sha256(_content(dataset.name, sample)).hexdigest()
        if sample.sha256 and sha256 != sample.sha256.removeprefix("sha256:"):
            raise WrongChecksum("content", sample.sha256, sha256)


def listed_samples(dataset: DatasetManifest, folder: AssetFolder) -> CachedSamples:
    """Return the samples that a manifest lists; each is checked now. Raises FileUnusable."""
    check_samples(dataset, folder)

    def read(index: int) -> Any:
        sample = dataset.samples[index]
        if sample.content:
            return _content(dataset.name, sample)
        bodies = {path: _read_unchanged(path, index, folder) for path in _checksums_of(sample)}
        if not sample.inputs:
            return bodies[sample.path]
        return {name: bodies[file.path] for name, file in sample.inputs.items()}

    truths = LazySequence(
        len(dataset.samples), lambda index: truth_of(dataset.samples[index], index)
    )
    return CachedSamples(len(dataset.samples), read, truths)


def source_samples(dataset: DatasetManifest, source: Source, folder: AssetFolder) -> CachedSamples:
    """Return the samples of a dataset's `source`. Raises FileUnusable, DatasetUnusable.

    `folder` has the files: those below the manifests, and those fetched.
    """
    path = _locate_source(source, folder)
    fetched = {address: file.failure or file.path for address, file in folder.fetched.items()}
    try:
        opened = open_dataset(
            source.reader,
            path,
            source.options,
            most_samples=source.most_samples,
            scratch=folder.scratch,
            fetched=fetched,
        )
    except DatasetError as error:
        raise DatasetUnusable(dataset.name, str(error)) from error
    if source.samples and len(opened) != source.samples:
        reason = f"has {len(opened)} samples; its manifest says {source.samples}"
        raise DatasetUnusable(dataset.name, reason)
    return CachedSamples(len(opened), opened.__getitem__, opened.truths)


def _locate_source(source: Source, folder: AssetFolder) -> Path:
    """Return the path of a source's dataset. Raises FileUnusable."""
    try:
        parsed = parse(source.address)
    except BadAddress as error:
        raise FetchFailed(str(error)) from error
    if parsed.address in folder.fetched:
        file = folder.fetched_file(parsed.address)
        if file.sha256:
            folder.checksums[parsed.address] = f"sha256:{file.sha256}"
        else:
            folder.notes.append(
                f"{parsed.address} is a folder read in place: its files were not checked"
            )
        root = file.path
    elif isinstance(parsed, FileSource):
        root = folder.locate(parsed.path, folders=True)
        if root.is_file():
            note_checked_sha256(root, parsed.path, source.checksum, folder.checksums)
    else:
        root = folder.fetched_file(parsed.address).path
    if not source.path:
        return root
    path = (root / source.path).resolve()
    if not path.is_relative_to(root.resolve()):
        raise PathOutsideManifests(source.path)
    return path


def _checksums_of(sample: Sample) -> Mapping[str, str]:
    """Return the checksums of a sample's files, by path."""
    if sample.inputs:
        return {file.path: file.sha256 for file in sample.inputs.values()}
    return {sample.path: sample.sha256} if sample.path else {}


def _locate(path: str, folder: AssetFolder) -> Path:
    """Return the file of a manifest's path. Raises FileUnusable."""
    try:
        source = parse(path)
    except BadAddress as error:
        raise FetchFailed(str(error)) from error
    if isinstance(source, FileSource):
        return folder.locate(source.path)
    return folder.fetched_file(source.address).path


def _read_unchanged(path: str, index: int, folder: AssetFolder) -> bytes:
    """Return a file's bytes if it still fits its checksum. Raises DatasetError."""
    try:
        body = _locate(path, folder).read_bytes()
    except OSError as error:
        raise BadRecord(path, index, error.strerror or str(error)) from error
    if folder.checksums.get(path) != f"sha256:{hashlib.sha256(body).hexdigest()}":
        raise BadRecord(path, index, "was altered while it was in use")
    return body


def _content(dataset: str, sample: Sample) -> bytes:
    try:
        return base64.b64decode(sample.content, validate=True)
    except binascii.Error as error:
        raise DatasetUnusable(
            dataset, f"content of a sample is not valid base64: {error}"
        ) from error


def truth_of(sample: Sample, index: int) -> Truth | None:
    """Return the ground truth of the sample with a number; None without labels, classes and name.

    A sample without a name and files is named after its number.
    """
    if not sample.labels and not sample.classes and not sample.name:
        return None
    file_name = sample.path.rpartition("/")[2] or ", ".join(_checksums_of(sample))
    return Truth(sample.name or file_name or str(index), sample.classes, sample.labels)
