"""From names to manifests."""

from typing import Any

import pytest

from mlscope.manifests.checking import faults_in
from mlscope.manifests.variants import variants_of
from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkNeed,
    ModelManifest,
    Port,
    Sample,
    Synthetic,
    Variant,
)
from schemas.request import Refused
from schemas.status import Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.resolving import (
    dataset_of,
    model_of,
    samples_of,
    sent_notes,
    similar_names,
    verifiable,
)
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
        ("zzz", ["b", "a"], []),
        ("fast", ["fasd", "a-fast-one"], ["fasd", "a-fast-one"]),
        ("a", ["a-long-name"], []),
        ("x", [], []),
    ],
)
def test_names_near_one(name: str, known: list[str], found: list[str]) -> None:
    assert similar_names(name, known) == found


def test_names_that_are_there_are_not_called_similar() -> None:
    refused = refusal(a_catalog(models=VERSIONS), model="zzz")
    assert refused.message == "model: nothing is named 'zzz'; there are: tiny"


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "../../etc", "a/ .. /b", "a\nb", "a\x00"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    model = a_model().model_copy(update={"name": name})
    with pytest.raises(RequestRefused) as caught:
        model_of(a_request(model=model), a_catalog())
    assert caught.value.refused.field == "model.name"
    assert [fault.field for fault in faults_in(model)] == ["name"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "my model"}, "model.name"),
        ({"framework": FrameworkNeed(name="onnxruntim")}, "model.framework.name"),
        ({"framework": FrameworkNeed(name="")}, "model.framework.name"),
        ({"inputs": (Port(type="tensr"),)}, "model.inputs.0.type"),
    ],
)
def test_a_sent_name_that_nothing_matches_is_refused(changes: dict[str, Any], field: str) -> None:
    refused = refusal(a_catalog(), model=a_model().model_copy(update=changes))
    assert (refused.error, refused.field) == ("invalid", field)


def test_a_sent_dataset_has_a_name_that_requests_can_write() -> None:
    dataset = a_dataset().model_copy(update={"name": "my photos"})
    assert refusal(a_catalog(), model=a_model(), dataset=dataset).field == "dataset.name"


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


FROM_HUB = Assets(base_url="hf://o/r@main/", weights_path="w.safetensors", builder="a.b")
FROM_SHELF = Assets(graph_path="tiny/model.onnx", checksum="sha256:ab")


def on_two(first: Assets, second: Assets, **changes: Any) -> ModelManifest:
    """Return a model for two frameworks."""
    other = Variant(name="pytorch", model=second)
    return a_model(model=first, frameworks=(other,), **changes)


@pytest.mark.parametrize("options", [{"weights": "random"}, {"weights": "unverified"}])
def test_weights_of_a_branch_are_used_only_on_request(options: dict[str, Any]) -> None:
    (model,) = variants_of(a_model(model=FROM_HUB))
    assert verifiable([model], a_request(options=options)) == [model]
    with pytest.raises(RequestRefused) as told:
        verifiable([model], a_request())
    refused = told.value.refused
    assert (refused.error, refused.field) == ("invalid", "options.weights")
    for word in ("unverified", "random", "hf://o/r@main/w.safetensors", "weights_checksum"):
        assert word in refused.allowed


def test_the_variant_that_can_be_verified_is_taken() -> None:
    one, other = variants_of(on_two(FROM_HUB, FROM_SHELF))
    assert verifiable([one, other], a_request()) == [other]
    assert verifiable([one, other], a_request(options={"weights": "unverified"})) == [one, other]


def test_a_sent_manifest_that_is_not_its_published_namesake_is_said() -> None:
    catalog = a_catalog(models=(a_model(),), datasets=(a_dataset(),))
    model = a_model(description="changed")
    (note,) = sent_notes(a_request(model=model), catalog)
    assert note.startswith("model tiny 1.0.0 came with the request and is not the published one")
    dataset = a_dataset(shape=(5,))
    (note,) = sent_notes(a_request(dataset=dataset), catalog)
    assert note.startswith("dataset vectors 1.0.0 came with the request")


def test_of_a_sent_manifest_that_is_as_published_nothing_is_said() -> None:
    published = on_two(FROM_SHELF, FROM_SHELF)
    catalog = a_catalog(models=(published,), datasets=(a_dataset(),))
    own = a_model(version="1.0.1", description="of its own number")
    for sent in ("tiny", published, *variants_of(published), own):
        assert sent_notes(a_request(model=sent, dataset=a_dataset()), catalog) == ()
