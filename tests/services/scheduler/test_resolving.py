"""From names to manifests."""

from typing import Any

import pytest

from schemas.manifest import DatasetManifest, Port, Sample, Synthetic
from schemas.request import Refused
from schemas.status import Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.resolving import dataset_of, model_of, near, samples_of
from tests.services.scheduler.samples import a_catalog, a_dataset, a_model, a_request


def refusal(catalog: Catalog, **wanted: Any) -> Refused:
    """Return why a request's model or dataset is not found."""
    request = a_request(**wanted)
    with pytest.raises(RequestRefused) as refused:
        dataset_of(request, model_of(request, catalog), catalog)
    return refused.value.refused


VERSIONS = tuple(a_model(version=version) for version in ("1.2.0", "1.10.0", "2.0.0rc1"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("tiny", "2.0.0rc1"),
        ("TINY", "2.0.0rc1"),
        ("tiny:", "2.0.0rc1"),
        (" tiny : 1.2.0 ", "1.2.0"),
        ("tiny:<2.0.0rc1", "1.10.0"),
        ("tiny:>=1 <1.5", "1.2.0"),
        ("tiny:1.*", "1.10.0"),
    ],
)
def test_a_name_means_its_newest_version_that_fits(text: str, version: str) -> None:
    found = model_of(a_request(model=text), a_catalog(models=VERSIONS))
    assert found.version == version


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "unknown"), (":1.0", "unknown"), ("tiny:>=9", "unknown"), ("tiny:=>1", "invalid")],
)
def test_what_names_no_model_is_refused(text: str, error: str) -> None:
    refused = refusal(a_catalog(models=VERSIONS), model=text)
    assert (refused.error, refused.field) == (error, "model")


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("resnet", ["ResNet50", "tiny"], ["ResNet50"]),
        ("zzz", ["b", "a"], ["a", "b"]),
        ("x", [], []),
    ],
)
def test_names_near_one(name: str, known: list[str], found: list[str]) -> None:
    assert near(name, known) == found


def test_of_many_names_none_near_a_few_are_told() -> None:
    assert len(near("zzz", (f"model{number}" for number in range(100)))) == 10


def test_samples_are_counted() -> None:
    assert samples_of(a_dataset()) == 64
    files = tuple(Sample(path=f"{number}.jpg", sha256="0") for number in range(3))
    assert samples_of(DatasetManifest(name="photos", samples=files)) == 3


def test_a_model_that_names_no_dataset_and_takes_no_noise_is_told_so() -> None:
    unshaped = a_model(dataset="", inputs=(Port(type="text"),))
    refused = refusal(a_catalog(models=(unshaped,)))
    assert refused.field == "dataset"
    assert "model tiny names none" in refused.allowed


@pytest.mark.parametrize(("shape", "fits"), [((4, 8), True), ((4, 9), False), ((4,), False)])
def test_an_open_dimension_takes_any_size(shape: tuple[int, ...], fits: bool) -> None:
    model = a_model(inputs=(Port(type="raw", shape=(-1, -1, 8)),))
    given = DatasetManifest(name="noise", synthetic=Synthetic(shape=shape))
    catalog = a_catalog(models=(model,))
    if fits:
        assert dataset_of(a_request(dataset=given), model, catalog) == given
    else:
        refused = refusal(catalog, dataset=given)
        assert refused.found == f"noise of shape {list(shape)}"
