"""Pictures of datasets' samples whose files lie in the gateway's own folder of manifests.

Files that agents fetch, of packages and web servers, are not here: their samples have no picture.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from starlette.requests import Request

from schemas.manifest import DatasetManifest, Sample

_MOST_BYTES = 512 * 1024
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_BEGINNINGS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n": "image/png", b"RIFF": "image/webp"}


class SamplePictures:
    """Finds and reads the files of samples below a folder."""

    def __init__(self, manifests_folder: Path | None) -> None:
        """Take the folder of manifests, None for a gateway without one."""
        self._root = (manifests_folder / "datasets").resolve() if manifests_folder else None

    def among(self, datasets: Iterable[DatasetManifest], most: int) -> frozenset[str]:
        """Return the sha256 of pictures that are here, of the first `most` samples of each."""
        samples = (sample for dataset in datasets for sample in dataset.samples[:most])
        return frozenset(sample.sha256 for sample in samples if self._file_of(sample))

    def read(self, datasets: Iterable[DatasetManifest], sha256: str) -> tuple[bytes, str] | None:
        """Return the content and the media type of the sample with this `sha256`.

        None where no sample of `datasets` has it, its file is not here or has another content, or
        it is no picture.
        """
        samples = (sample for dataset in datasets for sample in dataset.samples)
        # Several datasets may have the same picture, some of them from elsewhere.
        files = (self._file_of(sample) for sample in samples if sample.sha256 == sha256)
        file = next(filter(None, files), None)
        if file is None:
            return None
        content = file.read_bytes()
        media_type = next(
            (kind for start, kind in _BEGINNINGS.items() if content.startswith(start)), ""
        )
        is_right = hashlib.sha256(content).hexdigest() == sha256
        return (content, media_type) if is_right and media_type else None

    def _file_of(self, sample: Sample) -> Path | None:
        """Return the file of a `sample` with a checksum, if it is here, a picture and small."""
        is_picture = sample.path.lower().endswith(_SUFFIXES) and ":" not in sample.path
        if self._root is None or not sample.sha256 or not is_picture:
            return None
        try:
            file = (self._root / sample.path).resolve()
            is_here = file.is_relative_to(self._root) and file.is_file()
            return file if is_here and file.stat().st_size <= _MOST_BYTES else None
        except (OSError, ValueError):
            return None


def pictures_of(request: Request) -> SamplePictures:
    """Return the samples' pictures that the gateway of a `request` has."""
    pictures: SamplePictures = request.app.state.sample_pictures
    return pictures
