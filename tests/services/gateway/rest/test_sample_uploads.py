"""Samples to predict: addresses, samples of datasets, or what is wrong with them."""

import base64
from typing import Any

import pytest

from mlscope.client.predicting import Upload
from schemas.encoding.errors import MalformedMessage
from schemas.manifest import DatasetManifest, Sample, SampleFile, Synthetic
from services.gateway.rest.sample_uploads import sample_upload

SUM = f"sha256:{'0' * 64}"
PHOTOS = DatasetManifest(
    name="photos",
    version="1.0.0",
    samples=(
        Sample(path="https://e.org/a.jpg", sha256=SUM),
        Sample(content=base64.b64encode(b"abc").decode()),
        Sample(inputs={"x": SampleFile(path="a.npy", sha256=SUM)}),
    ),
)
NEWER = PHOTOS.model_copy(update={"version": "2.0.0", "samples": PHOTOS.samples[1:2]})
NOISE = DatasetManifest(name="noise", synthetic=Synthetic(samples=9))
DATASETS = (PHOTOS, NEWER, NOISE)


def upload(**fields: Any) -> Upload:
    return sample_upload("cat", fields, DATASETS)


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "https://e.org/a.jpg"},
        {"address": " https://e.org/a.jpg ", "sha256": SUM},
        {"address": "http://e.org/a.jpg", "sha256": SUM},
        {"address": "artifact://a.jpg", "sha256": SUM},
    ],
)
def test_an_address_is_fetched_by_the_agent(fields: dict[str, str]) -> None:
    address = fields["address"].strip()
    assert upload(**fields) == Upload("cat", address=address, sha256=fields.get("sha256", ""))


@pytest.mark.parametrize(
    "address", ["file:/etc/passwd", "/etc/passwd", "http://e.org/a.jpg", "ftp://e.org/a", ""]
)
def test_a_file_of_the_agent_s_host_or_one_that_anybody_may_change_is_refused(address: str) -> None:
    with pytest.raises(MalformedMessage) as refused:
        upload(address=address)
    assert (refused.value.field, refused.value.found) == ("samples.cat.address", address)
    assert "https://HOST/FILE" in refused.value.expected


def test_a_sample_of_a_dataset_is_its_file_or_its_content() -> None:
    file = Upload("cat", address="https://e.org/a.jpg", sha256=SUM)
    assert upload(dataset="photos", sample=0) == file
    assert upload(dataset="photos", sample=1) == Upload("cat", b"abc")
    assert upload(dataset="photos:2.0.0", sample=0) == Upload("cat", b"abc")


@pytest.mark.parametrize(
    ("fields", "field", "expected"),
    [
        ({"dataset": "photos", "sample": 3}, "sample", "a number from 0 to 2"),
        ({"dataset": "photos", "sample": -1}, "sample", "a number from 0 to 2"),
        ({"dataset": "photos", "sample": "first"}, "sample", "a number from 0 to 2"),
        ({"dataset": "photos"}, "sample", "a number from 0 to 2"),
        ({"dataset": "photos", "sample": 2}, "sample", "a sample of one file"),
        ({"dataset": "noise", "sample": 0}, "dataset", "that lists its samples"),
        ({"dataset": "photos:3.0.0", "sample": 0}, "dataset", "that lists its samples"),
        ({"sample": 0}, "dataset", "that lists its samples"),
    ],
)
def test_a_sample_that_is_not_there_is_refused_by_its_field(
    fields: dict[str, Any], field: str, expected: str
) -> None:
    with pytest.raises(MalformedMessage) as refused:
        upload(**fields)
    assert refused.value.field == f"samples.cat.{field}"
    assert expected in refused.value.expected


@pytest.mark.parametrize("fields", ["a.jpg", [], {}, {"path": "a.jpg"}, None])
def test_what_is_no_map_of_the_known_fields_is_refused(fields: object) -> None:
    with pytest.raises(MalformedMessage) as refused:
        sample_upload("c" * 200, fields, DATASETS)
    assert refused.value.field == f"samples.{'c' * 72}"
    assert refused.value.expected == "a map with address, sha256, dataset, sample"
