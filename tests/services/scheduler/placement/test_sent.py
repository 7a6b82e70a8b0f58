"""Manifests that come with a request: which get a version of their own, and what is said of it."""

from typing import Any

import pytest

from mlscope.manifests.digests import digest_of
from mlscope.manifests.naming import LONGEST_NAME
from mlscope.manifests.variants import variants_of
from schemas.manifest import Assets, DatasetManifest, ModelManifest, Synthetic, Variant
from schemas.request import Evaluate
from schemas.status import Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from services.scheduler.placement.preview import preview
from services.scheduler.placement.sent import as_recorded, with_own_versions
from tests.services.scheduler.samples import a_catalog, a_dataset, a_model, a_request

ON_SHELF = Assets(graph_path="tiny/model.onnx", checksum="sha256:ab")
FORGED = a_model(attributes={"top1": "99.99"})
FORGED_DATASET = DatasetManifest(name="vectors", synthetic=Synthetic(shape=(4,), seed=7))
OWN_VERSION = f"1.0.0+{digest_of(FORGED)[:12]}"


def version_of(model: ModelManifest, catalog: Catalog | None = None) -> str:
    """Return the version of a model after its request was taken."""
    taken = with_own_versions(a_request(model=model), catalog or a_catalog()).model
    assert isinstance(taken, ModelManifest)
    return taken.version


def test_a_model_called_as_the_published_one_gets_a_version_of_its_own() -> None:
    request = with_own_versions(a_request(model=FORGED), a_catalog())
    assert request == a_request(model=FORGED.model_copy(update={"version": OWN_VERSION}))
    assert with_own_versions(request, a_catalog()) is request, "it has its own already"


def test_a_dataset_called_as_the_published_one_gets_a_version_of_its_own() -> None:
    taken = with_own_versions(a_request(dataset=FORGED_DATASET), a_catalog()).dataset
    assert isinstance(taken, DatasetManifest)
    assert taken.version == f"1.0.0+{digest_of(FORGED_DATASET)[:12]}"
    same = a_request(dataset=a_dataset())
    assert with_own_versions(same, a_catalog()) is same


def test_what_is_as_published_or_called_otherwise_keeps_its_version() -> None:
    other = Variant(name="pytorch", model=ON_SHELF)
    published = a_model(model=ON_SHELF, frameworks=(other,))
    catalog = a_catalog(models=(published,))
    own = a_model(version="1.0.1", description="of its own number")
    for sent in ("tiny", "tiny:1.0.0", published, *variants_of(published), own, a_model("mine")):
        request = a_request(model=sent)
        assert with_own_versions(request, catalog) is request


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("TINY", "1.0.0"),
        ("tiny:1.0.0", "7"),
        (" tiny", "1.0.0"),
        ("\uff54iny", "1.0.0"),
        ("t\u0130ny", "1.0.0"),
        ("tiny\ufe0f", "1.0.0"),
        ("tiny", "1.0"),
        ("tiny", "1.0.0\u200b"),
    ],
)
def test_a_name_or_version_that_looks_alike_is_not_taken_for_the_published_one(
    name: str, version: str
) -> None:
    own_version = version_of(a_model(name, version, description="forged"))
    assert own_version.startswith("1.0.0+")
    assert len(own_version) == len(OWN_VERSION)


def test_a_name_is_normalized_once_however_many_are_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A letter may become eighteen: for each published model that would keep the scheduler busy."""
    normalized: list[str] = []

    def seen(text: str) -> str:
        normalized.append(text)
        return text

    monkeypatch.setattr("services.scheduler.placement.sent._seen", seen)
    catalog = a_catalog(models=[a_model(f"other-{number}") for number in range(50)])
    name = "\ufdfa" * LONGEST_NAME
    with_own_versions(a_request(model=a_model(name)), catalog)
    assert normalized.count(name) == 1


@pytest.mark.parametrize("field", ["name", "version"])
def test_what_is_too_long_for_a_name_is_refused_and_not_compared(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = a_request(model=a_model(**{field: "\ufdfa" * (LONGEST_NAME + 1)}))
    with pytest.raises(RequestRefused) as refused:
        match(request, a_catalog(), {})
    assert refused.value.refused.field == f"model.{field}"
    monkeypatch.setattr("services.scheduler.placement.sent._seen", None)
    assert with_own_versions(request, a_catalog()) is request


def test_a_version_with_a_local_part_gets_a_further_one() -> None:
    catalog = a_catalog(models=(a_model(version="1.0.0+cu12"),))
    forged = a_model(version="1.0.0+cu12", description="forged")
    assert version_of(forged, catalog) == f"1.0.0+cu12.{digest_of(forged)[:12]}"


def test_a_preview_and_a_plan_have_the_own_version_and_say_so() -> None:
    request, catalog = a_request(model=FORGED, dataset=FORGED_DATASET), a_catalog()
    own_dataset = f"1.0.0+{digest_of(FORGED_DATASET)[:12]}"
    matched = preview(request, Fleet(catalog), 0)
    assert (matched.model, matched.dataset) == (f"tiny:{OWN_VERSION}", f"vectors:{own_dataset}")
    subject = plan(request, match(request, catalog, {}), catalog).subject
    assert (subject.model.version, subject.dataset.version) == (OWN_VERSION, own_dataset)
    said = "came with the request and is not the published one of that name and version"
    assert subject.notes == (
        f"model tiny 1.0.0 {said}: its results are those of tiny {OWN_VERSION}",
        f"dataset vectors 1.0.0 {said}: its results are those of vectors {own_dataset}",
    )


def notes_of(request: Evaluate, catalog: Catalog) -> tuple[str, ...]:
    return plan(request, match(request, catalog, {}), catalog).subject.notes


def test_a_record_that_is_run_again_keeps_version_and_note_without_the_published_one() -> None:
    taken = with_own_versions(a_request(model=FORGED), a_catalog())
    assert notes_of(taken, a_catalog(models=())) == notes_of(taken, a_catalog())
    assert notes_of(taken, a_catalog())[0].startswith("model tiny 1.0.0 came with the request")


def test_of_a_published_model_nothing_is_said_whatever_its_version() -> None:
    published = a_model(version=OWN_VERSION, attributes=FORGED.attributes)
    catalog = a_catalog(models=(a_model(), published))
    assert notes_of(a_request(model=f"tiny:{OWN_VERSION}"), catalog) == ()
    assert notes_of(a_request(model=a_model()), catalog) == ()


@pytest.mark.parametrize("changes", [{"model": FORGED}, {"dataset": FORGED_DATASET}])
def test_a_request_sent_again_is_the_one_recorded(changes: dict[str, Any]) -> None:
    request = a_request(**changes)
    recorded = with_own_versions(request, a_catalog())
    assert recorded != request
    assert as_recorded(request, recorded) == recorded, "as it was sent the first time"
    assert as_recorded(recorded, recorded) == recorded, "as it was recorded"
    assert as_recorded(request, request) == request, "recorded before another was published"
    other = request.model_copy(update={"model": a_model(description="another forgery")})
    assert as_recorded(other, recorded) != recorded
