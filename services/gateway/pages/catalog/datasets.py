"""The pages of datasets: what they hold, where from, and their first samples. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlscope.counts import many, verb
from schemas.manifest import DatasetManifest

_MOST_SAMPLES = 60
_FEW_SAMPLES = 4
_IMAGES = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "UklGR": "image/webp"}
"""Beginnings of base64 texts that are pictures which browsers show."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A sample: its name, its labels, and a picture as a data address if it holds one."""

    name: str
    labels: str
    picture: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset in the list."""

    manifest: DatasetManifest

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"/datasets/{self.manifest.name}/{self.manifest.version}"

    @property
    def samples(self) -> str:
        """How many samples it has."""
        count = sample_count(self.manifest)
        return "unknown" if count is None else f"{count:,}"

    @property
    def samples_unit(self) -> str:
        """What follows `samples` where no heading says what they are."""
        count = sample_count(self.manifest)
        return "number of samples" if count is None else verb(count, "sample", "samples")

    @property
    def origin(self) -> str:
        """Where its samples come from."""
        manifest = self.manifest
        if manifest.synthetic:
            synthetic = manifest.synthetic
            return f"made from seed {synthetic.seed}, {synthetic.distribution}"
        if manifest.source:
            return f"{manifest.source.address} ({manifest.source.reader})"
        return many(len(manifest.samples), "file") if manifest.samples else ""

    @property
    def first_samples(self) -> list[SampleRow]:
        """A few samples, for the list."""
        return sample_rows(self.manifest, _FEW_SAMPLES)


def sample_rows(manifest: DatasetManifest, limit: int) -> list[SampleRow]:
    """Return the first samples that a `manifest` itself lists, at most `limit`."""
    rows = []
    for sample in manifest.samples[:limit]:
        paths = sample.path or ", ".join(file.path for file in sample.inputs.values())
        classes = ", ".join(f"class {number}" for number in sample.classes)
        labels = ", ".join(sample.labels) or classes
        picture = picture_address(sample.content)
        rows.append(SampleRow(paths.rpartition("/")[2] or "inline", labels, picture))
    return rows


def picture_address(content: str) -> str:
    """Return a data address of a `content` in base64; '' for one that is no picture."""
    for beginning, media_type in _IMAGES.items():
        if content.startswith(beginning):
            return f"data:{media_type};base64,{content}"
    return ""


def sample_count(manifest: DatasetManifest) -> int | None:
    """Return the number of a dataset's samples, None where only its reader knows."""
    if manifest.synthetic:
        return manifest.synthetic.samples
    if manifest.source:
        return manifest.source.samples or manifest.source.most_samples or None
    return len(manifest.samples)


@dataclass(frozen=True, slots=True)
class DatasetsView:
    """All datasets of the catalog."""

    rows: Sequence[DatasetRow]
    template: ClassVar[str] = "datasets.html"
    title: ClassVar[str] = "Datasets"


@dataclass(frozen=True, slots=True)
class DatasetView:
    """One dataset and its first samples."""

    row: DatasetRow
    template: ClassVar[str] = "dataset.html"

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.row.manifest.name} {self.row.manifest.version}"

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """Names and values of what is known of it."""
        manifest = self.row.manifest
        return [
            ("Samples", self.row.samples),
            ("Modality", manifest.modality),
            ("Origin", self.row.origin),
            ("Licence", manifest.license),
        ]

    @property
    def samples(self) -> list[SampleRow]:
        """The first samples that the manifest itself lists."""
        return sample_rows(self.row.manifest, _MOST_SAMPLES)

    @property
    def further_samples(self) -> int:
        """How many samples the manifest lists beside those."""
        return max(0, len(self.row.manifest.samples) - _MOST_SAMPLES)


def datasets_view(datasets: Sequence[DatasetManifest]) -> DatasetsView:
    """Return all datasets by name and version."""
    ordered = sorted(datasets, key=lambda dataset: (dataset.name, dataset.version))
    return DatasetsView([DatasetRow(dataset) for dataset in ordered])
