"""Samples in a request to predict as files that an agent fetches."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from mlscope.assets.addresses import FileSource, HttpSource, parse
from mlscope.assets.errors import BadAddress
from mlscope.client.predicting import Upload
from schemas.encoding.errors import MalformedMessage
from schemas.manifest import DatasetManifest

_FIELDS = ("address", "sha256", "dataset", "sample")
_ADDRESS = "https://HOST/FILE, or another address of a file with its sha256"


def sample_upload(name: str, fields: Any, datasets: Sequence[DatasetManifest]) -> Upload:
    """Return the sample `name` of a request as a file that its agent fetches.

    `fields` are an address with or without its sha256, or a dataset among `datasets` and the number
    of a sample there. Raises MalformedMessage.
    """
    field = f"samples.{name}"[:80]
    if not isinstance(fields, dict) or not fields or fields.keys() - set(_FIELDS):
        expected = f"a map with {', '.join(_FIELDS)}"
        raise MalformedMessage(field=field, found=repr(fields)[:80], expected=expected)
    if "address" in fields:
        return _at_address(name, field, fields)
    dataset_name, number = str(fields.get("dataset")), fields.get("sample")
    for dataset in datasets:
        is_named = dataset_name in (dataset.name, f"{dataset.name}:{dataset.version}")
        if not is_named or not dataset.samples:
            continue
        if not isinstance(number, int) or not 0 <= number < len(dataset.samples):
            expected = f"a number from 0 to {len(dataset.samples) - 1}"
            raise MalformedMessage(
                field=f"{field}.sample", found=repr(number)[:80], expected=expected
            )
        sample = dataset.samples[number]
        if sample.content:
            return Upload(name, base64.b64decode(sample.content))
        if not sample.path:
            expected = "a sample of one file"
            raise MalformedMessage(field=f"{field}.sample", found=str(number), expected=expected)
        return Upload(name, address=sample.path, sha256=sample.sha256)
    expected = "a dataset of the catalog that lists its samples"
    raise MalformedMessage(field=f"{field}.dataset", found=dataset_name[:80], expected=expected)


def _at_address(name: str, field: str, fields: Mapping[str, Any]) -> Upload:
    """Return a file at an address; one of the agent's own host is none. Raises MalformedMessage."""
    address, checksum = str(fields["address"]).strip(), str(fields.get("sha256") or "")
    try:
        source = parse(address)
    except BadAddress:
        source = None
    is_open_web = isinstance(source, HttpSource) and not source.is_encrypted and not checksum
    if source is None or isinstance(source, FileSource) or is_open_web:
        raise MalformedMessage(field=f"{field}.address", found=address[:80], expected=_ADDRESS)
    return Upload(name, address=address, sha256=checksum)
