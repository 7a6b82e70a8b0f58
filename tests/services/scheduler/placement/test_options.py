"""The options of requests, against those that agents say their predictors take."""

from typing import Any

import pytest

from schemas.manifest import Assets
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.matching import match
from tests.services.scheduler.samples import (
    a_catalog,
    a_model,
    a_model_of,
    a_request,
    a_runtime,
    an_agent,
)

ORT = a_runtime(options=("threads", "intra_threads", "mode"))
LITERT = a_runtime(framework="litert", version="2.0", options=("threads", "xnnpack"))
UNKNOWN = a_runtime(options=None)
BUILT = a_model(model=Assets(builder="torchvision.models.resnet18"))


def test_an_option_that_no_predictor_takes_is_refused_with_similar_names() -> None:
    catalog = a_catalog(an_agent("a1", runtimes=(ORT,)), an_agent("a2", runtimes=(ORT, LITERT)))
    with pytest.raises(RequestRefused) as caught:
        match(a_request(options={"mode": "parallel", "thread": 2}, wait_s=60.0), catalog, {})
    refused = caught.value.refused
    assert (refused.error, refused.field, refused.found) == ("unknown", "options.thread", "thread")
    assert refused.allowed.split(", ")[0] == "threads"


@pytest.mark.parametrize("runtimes", [(UNKNOWN,), (LITERT, UNKNOWN)])
def test_a_predictor_that_names_no_options_may_take_any(runtimes: Any) -> None:
    catalog = a_catalog(an_agent("a1", runtimes=(ORT,)), an_agent("a2", runtimes=runtimes))
    matched = match(a_request(options={"own": 2}), catalog, {})
    assert [own.agent for own in matched.agents] == ["a2"]
    assert "takes no option 'own': threads, intra_threads, mode" in matched.reasons[0].reason


def test_of_several_frameworks_those_that_take_the_option_run() -> None:
    agents = an_agent("a1", runtimes=(ORT,)), an_agent("a2", runtimes=(LITERT,))
    request = a_request(
        model=a_model_of("onnxruntime", "litert"), options={"xnnpack": False}, spread="all"
    )
    assert [own.agent for own in match(request, a_catalog(*agents), {}).agents] == ["a2"]
    # Where no agent has LiteRT one may still come.
    assert not match(request, a_catalog(agents[0]), {}).agents


@pytest.mark.parametrize(
    ("model", "weights", "is_taken"),
    [
        (BUILT, "random", True),
        (BUILT, "unverified", True),
        (BUILT, "nothing", False),
        (a_model(), "unverified", True),
        (a_model(), "random", False),
    ],
)
def test_a_choice_of_weights_is_the_agent_s_to_make(
    model: Any, weights: str, is_taken: bool
) -> None:
    request = a_request(model=model, options={"weights": weights})
    catalog = a_catalog(an_agent(runtimes=(ORT,)))
    if is_taken:
        assert match(request, catalog, {}).agents
        return
    with pytest.raises(RequestRefused, match=r"options\.weights"):
        match(request, catalog, {})
