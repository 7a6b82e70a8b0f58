"""Samples of the catalog's datasets, to try a model with. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.manifest import DatasetManifest

MOST_CHOICES = 60


@dataclass(frozen=True, slots=True)
class SampleChoice:
    """A sample to choose: its dataset, its number there, and what people call it."""

    dataset: str
    number: int
    name: str


def sample_choices(datasets: Sequence[DatasetManifest], modality: str) -> list[SampleChoice]:
    """Return samples of `datasets` of one `modality`, a few of each, of one file each."""
    choices: list[SampleChoice] = []
    for dataset in datasets:
        if dataset.modality != modality:
            continue
        for number, sample in enumerate(dataset.samples[:20]):
            if not sample.path and not sample.content:
                continue
            name = sample.path.rpartition("/")[2] or f"sample {number}"
            labels = f" ({', '.join(sample.labels[:2])})" if sample.labels else ""
            source = f"{dataset.name}:{dataset.version}"
            choices.append(SampleChoice(source, number, f"{name}{labels}"))
    return choices[:MOST_CHOICES]
