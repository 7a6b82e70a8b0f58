"""The requests for a dataset's files: its samples, its source, and the files of a list of URLs."""

from pathlib import Path

from mlscope.assets.addresses import FileSource, Source, parse
from mlscope.assets.errors import BadAddress
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.readers.urls import listed_files
from schemas.manifest import DatasetManifest
from services.agent.errors import DatasetUnusable, FetchFailed
from services.agent.fetching.requests import AssetRequest

BELOW = "datasets"
"""The folder of the manifests that relative paths of datasets start from."""

LIST = "urls"
"""The reader whose samples are addresses."""


def dataset_requests(dataset: DatasetManifest) -> tuple[AssetRequest, ...]:
    """Return the requests for a dataset's samples and source. Raises FetchFailed.

    A `file:` source is requested as well: its host checks whether it may be read in place.
    """
    files = [
        file
        for sample in dataset.samples
        for file in sample.inputs.values() or [sample]
        if file.path
    ]
    requests = []
    for file in files:
        source = _parsed(file.path)
        if not isinstance(source, FileSource):
            requests.append(AssetRequest(file.path, source, file.sha256, below=BELOW))
    if dataset.source is not None:
        source = _parsed(dataset.source.address)
        request = AssetRequest(
            dataset.source.address,
            source,
            dataset.source.checksum,
            is_archive=dataset.source.archive,
            below=BELOW,
            in_place=isinstance(source, FileSource) and not dataset.source.archive,
        )
        requests.append(request)
    return tuple(dict.fromkeys(requests))


def url_list_requests(dataset: DatasetManifest, path: Path) -> tuple[AssetRequest, ...]:
    """Return the requests for the files of a list of URLs; they are optional.

    Raises DatasetUnusable for a list that can't be read.
    """
    assert dataset.source is not None
    try:
        files = list(listed_files(path, path.name))
    except DatasetError as error:
        raise DatasetUnusable(dataset.name, str(error)) from error
    requests = []
    for file in files[: dataset.source.most_samples or None]:
        try:
            source = parse(file.url)
        except BadAddress:
            continue
        if not isinstance(source, FileSource):
            request = AssetRequest(file.url, source, file.sha256, below=BELOW, is_optional=True)
            requests.append(request)
    return tuple(dict.fromkeys(requests))


def _parsed(address: str) -> Source:
    try:
        return parse(address)
    except BadAddress as error:
        raise FetchFailed(str(error)) from error
