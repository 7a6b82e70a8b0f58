"""Samples of the catalog's datasets, to try a model with. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.manifest import DatasetManifest
from services.gateway.pages.catalog.datasets import picture_address

MOST_CHOICES = 60
MOST_OF_A_DATASET = 20


@dataclass(frozen=True, slots=True)
class SampleChoice:
    """A sample to choose: its dataset, its number there, and what people call it."""

    dataset: str
    number: int
    name: str
    #: the picture's address, '' without one
    picture: str = ""


def sample_choices(
    datasets: Sequence[DatasetManifest], modality: str, with_pictures: frozenset[str]
) -> list[SampleChoice]:
    """Return samples of `datasets` of one `modality`, a few of each, pictures first.

    The gateway has the files of the samples `with_pictures`.
    """
    choices: list[SampleChoice] = []
    for dataset in datasets:
        if dataset.modality != modality:
            continue
        for number, sample in enumerate(dataset.samples[:MOST_OF_A_DATASET]):
            if not sample.path and not sample.content:
                continue
            name = sample.path.rpartition("/")[2] or f"sample {number}"
            labels = f" ({', '.join(sample.labels[:2])})" if sample.labels else ""
            source = f"{dataset.name}:{dataset.version}"
            picture = picture_address(sample, with_pictures)
            choices.append(SampleChoice(source, number, f"{name}{labels}", picture))
    return sorted(choices, key=lambda choice: not choice.picture)[:MOST_CHOICES]
