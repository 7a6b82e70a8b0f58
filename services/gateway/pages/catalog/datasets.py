"""The pages of datasets: what they hold, where from, and their first samples. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlscope.counts import many, verb
from schemas.manifest import DatasetManifest, Sample

MOST_SAMPLES = 60
FEW_SAMPLES = 4
_IMAGES = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "UklGR": "image/webp"}
"""Beginnings of base64 texts that are pictures which browsers show."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A sample: its name, its labels, and the address of its picture, '' without one."""

    name: str
    labels: str
    picture: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset in the list."""

    manifest: DatasetManifest
    #: the sha256 of samples whose files the gateway has
    with_pictures: frozenset[str] = frozenset()

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
        return self.sample_rows(FEW_SAMPLES)

    def sample_rows(self, limit: int) -> list[SampleRow]:
        """Return the first samples that the manifest itself lists, at most `limit`."""
        return [_sample_row(sample, self.with_pictures) for sample in self.manifest.samples[:limit]]


def _sample_row(sample: Sample, with_pictures: frozenset[str]) -> SampleRow:
    paths = sample.path or ", ".join(file.path for file in sample.inputs.values())
    classes = ", ".join(f"class {number}" for number in sample.classes)
    labels = ", ".join(sample.labels) or classes
    picture = picture_address(sample, with_pictures)
    return SampleRow(paths.rpartition("/")[2] or "inline", labels, picture)


def picture_address(sample: Sample, with_pictures: frozenset[str]) -> str:
    """Return the address of the picture of a `sample`, '' without one.

    It is its content, or its file at this gateway, which has those of `with_pictures`.
    """
    for beginning, media_type in _IMAGES.items():
        if sample.content.startswith(beginning):
            return f"data:{media_type};base64,{sample.content}"
    return f"/samples/{sample.sha256}" if sample.sha256 in with_pictures else ""


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
        return self.row.sample_rows(MOST_SAMPLES)

    @property
    def lacks_pictures(self) -> bool:
        """Whether samples are pictures that this gateway cannot show."""
        is_of_pictures = self.row.manifest.modality == "image"
        return is_of_pictures and not all(sample.picture for sample in self.samples)

    @property
    def further_samples(self) -> int:
        """How many samples the manifest lists beside those."""
        return max(0, len(self.row.manifest.samples) - MOST_SAMPLES)


def datasets_view(
    datasets: Sequence[DatasetManifest], with_pictures: frozenset[str] = frozenset()
) -> DatasetsView:
    """Return all datasets by name and version; the gateway has the files `with_pictures`."""
    ordered = sorted(datasets, key=lambda dataset: (dataset.name, dataset.version))
    return DatasetsView([DatasetRow(dataset, with_pictures) for dataset in ordered])
