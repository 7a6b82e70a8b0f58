"""The choice of weights is the manifest's by the time a predictor sees it."""

import pytest

from schemas.manifest import Assets
from schemas.plan import Subject
from services.agent.worker.files.weights import with_weights_chosen
from tests.services.agent.builders import a_subject, model_named


def subject(assets: Assets, **options: object) -> Subject:
    """Return a subject of the model's assets and a request's options."""
    model = model_named("identity").model_copy(update={"model": assets})
    return a_subject().model_copy(update={"model": model, "options": options})


BUILT = Assets(builder="a.b", weights_path="w", weights_checksum="sha256:ab", seed=3)
GRAPH = Assets(graph_path="g.onnx")


def test_random_weights_are_the_manifest_s_own_word() -> None:
    chosen = with_weights_chosen(subject(BUILT, weights="random", threads=1))
    assert (chosen.model.model.weights, chosen.options) == ("random", {"threads": 1})
    assert chosen.model.model.seed == 3


@pytest.mark.parametrize("assets", [BUILT, GRAPH])
def test_no_predictor_hears_that_a_file_was_taken_unverified(assets: Assets) -> None:
    chosen = with_weights_chosen(subject(assets, weights="unverified"))
    assert (chosen.model.model, chosen.options) == (assets, {})


@pytest.mark.parametrize(
    ("assets", "options"),
    [(GRAPH, {"weights": "random"}), (BUILT, {"weights": "best"}), (BUILT, {})],
)
def test_what_means_nothing_is_left_for_the_predictor_to_refuse(
    assets: Assets, options: dict[str, str]
) -> None:
    given = subject(assets, **options)
    assert with_weights_chosen(given) is given
