"""Remote models, on a small server of the Open Inference Protocol."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import ModelManifest
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import OpenRequest, predictor_named
from services.agent.predictors.remote import open_model
from services.agent.worker.opening import open_session
from tests.services.agent.builders import MANIFESTS, a_subject, a_synthetic
from tests.services.agent.predictors.doubling import doubling


@pytest.fixture
def url() -> Iterator[str]:
    with doubling() as lent:
        yield lent


def remote_model() -> ModelManifest:
    return ModelManifest.model_validate(
        {
            "name": "double",
            "version": "1.0.0",
            "framework": {"name": "remote"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, 3]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
        }
    )


def request(url: str, batch_size: int = 2, **options: Any) -> OpenRequest:
    model = remote_model()
    return OpenRequest(model, Path(), b"", batch_size, options={"url": url, **options})


def batch(seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((2, 3), np.float32)}


def test_the_servers_answers_are_handed_on(url: str) -> None:
    predictor = predictor_named("remote")(request(url))
    for seed in range(3):
        answer = predictor.predict(batch(seed))["y"]
        assert answer.dtype == np.float32
        assert np.array_equal(answer, 2 * batch(seed)["x"])
    predictor.close()


def test_what_the_server_says_of_itself_is_said(url: str) -> None:
    predictor = open_model(request(url))
    predictor.close()
    told = predictor.opened
    assert (told.framework_version, told.device, told.provider) == (
        "doubler 2.1",
        "remote",
        "numpy",
    )
    assert (told.inputs[0].name, told.inputs[0].shape) == ("x", (-1, 3))
    assert min(told.load_ns, told.first_run_ns) > 0


def test_an_error_of_the_server_is_told_and_the_next_call_is_right(url: str) -> None:
    predictor = open_model(request(url))
    with pytest.raises(PredictFailed, match="no such luck"):
        predictor.predict({"x": np.zeros((2, 4), np.float32)})
    with pytest.raises(PredictFailed):
        predictor.predict({"x": np.full((2, 3), -1000, np.float32)})
    assert np.array_equal(predictor.predict(batch())["y"], 2 * batch()["x"])
    predictor.close()


@pytest.mark.parametrize("model", ["none", "broken", "odd"])
def test_a_model_that_will_not_do_is_refused(url: str, model: str) -> None:
    with pytest.raises(OpenFailed, match=r"no such luck|Open Inference"):
        open_model(request(url, model=model))


def test_a_batch_the_model_cannot_take_is_refused(url: str) -> None:
    with pytest.raises(BatchSizeUnsupported):
        open_model(request(url, model="fixed"))


def test_where_nobody_listens_nothing_opens() -> None:
    with pytest.raises(OpenFailed, match="double"):
        open_model(request("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "url", ["", "file:///x", "http://example.org:80", "http://127.0.0.1", "http://[x:1"]
)
def test_only_allowed_servers_are_called(url: str) -> None:
    with pytest.raises(BadOption, match="url"):
        open_model(request(url))


def test_the_owner_allows_further_servers() -> None:
    wanted = request("http://server.invalid:80")
    with pytest.raises(BadOption, match="allowed here: localhost"):
        open_model(wanted)
    with pytest.raises(OpenFailed):
        open_model(replace(wanted, remote_hosts=("server.invalid",)))


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"threads": 1}])
def test_a_wrong_option_is_named(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(url, **options))


def test_a_worker_opens_it_without_a_file(url: str, tmp_path: Path) -> None:
    subject = a_subject(framework="remote", options={"url": url})
    subject = subject.model_copy(update={"model": remote_model(), "dataset": a_synthetic((3,))})
    session = open_session(subject, 2, MANIFESTS, tmp_path)
    given = session.slots[0].inputs["x"]
    assert given.any()
    assert np.array_equal(session.predictor.predict({"x": given})["y"], 2 * given)
    session.close()
