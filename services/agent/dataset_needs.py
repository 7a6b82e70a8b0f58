"""What a dataset needs from elsewhere: its samples' files, its source, what a list leads to."""

from pathlib import Path

from mlscope.assets.addresses import FileSource, Source, parse
from mlscope.assets.errors import BadAddress
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.urls import listed_in
from schemas.manifest import DatasetManifest
from services.agent.errors import AssetUnusable, DatasetUnusable
from services.agent.needs import Need

BELOW = "datasets"
"""The folder of the manifests that relative paths of datasets start from."""

LIST = "urls"
"""The reader whose samples are addresses."""


def dataset_needs(dataset: DatasetManifest) -> tuple[Need, ...]:
    """Return what a dataset needs from elsewhere, its list of addresses too. Raises AssetUnusable.

    A source below `file:` is needed as well: the agent says whether it may be read in place.
    """
    needs = []
    for sample in dataset.samples:
        files = [(each.path, each.sha256) for each in sample.inputs.values()]
        for path, sha256 in files or [(sample.path, sample.sha256)]:
            source = _parsed(path) if path else None
            if source is not None and not isinstance(source, FileSource):
                needs.append(Need(path, source, sha256, below=BELOW))
    if dataset.source is not None:
        source, said = _parsed(dataset.source.address), dataset.source
        in_place = isinstance(source, FileSource) and not said.archive
        needs.append(
            Need(
                said.address,
                source,
                said.checksum,
                is_archive=said.archive,
                below=BELOW,
                in_place=in_place,
            )
        )
    return tuple(dict.fromkeys(needs))


def listed_needs(dataset: DatasetManifest, path: Path) -> tuple[Need, ...]:
    """Return what the list at a path leads to; a sample is lost where one can't be had.

    Raises DatasetUnusable for a list that can't be read.
    """
    assert dataset.source is not None
    try:
        lines = list(listed_in(path, path.name))
    except DatasetError as error:
        raise DatasetUnusable(dataset.name, str(error)) from error
    needs = []
    for line in lines[: dataset.source.most_samples or None]:
        try:
            source = parse(line.url)
        except BadAddress:
            continue
        if not isinstance(source, FileSource):
            needs.append(Need(line.url, source, line.sha256, below=BELOW, may_lack=True))
    return tuple(dict.fromkeys(needs))


def _parsed(address: str) -> Source:
    try:
        return parse(address)
    except BadAddress as error:
        raise AssetUnusable(str(error)) from error
