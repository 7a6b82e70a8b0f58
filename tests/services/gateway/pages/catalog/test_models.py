"""The catalog's pages: sought, sorted, paged; figures as their sources have them."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import yaml

from mlscope.manifests.fitting import Running, alike, running_of
from schemas.manifest import ModelManifest
from services.gateway.pages.catalog.models import Search, matching_models, model_view, models_view
from services.gateway.rendering import html_of
from tests.services.scheduler.samples import an_agent
from tests.stand_ins import StandIns
from tests.stories import a_model


def on_none(models: Sequence[ModelManifest]) -> list[Running]:
    return [Running() for _ in models]


def a_named(name: str, **changes: Any) -> ModelManifest:
    return ModelManifest.model_validate(a_model().model_dump() | {"name": name} | changes)


MODELS = (
    a_named(
        "resnet",
        task="image classification",
        framework={"name": "pytorch", "version": ">=2"},
        attributes={"parameters": 25_000_000, "acc@1 on ImageNet-1K": 76.1},
    ),
    a_named(
        "lite0",
        task="image classification",
        description="For small <devices>.",
        frameworks=[{"name": "litert"}],
        attributes={"top1": 74.83, "training_dataset": "ImageNet", "weights_megabytes": 18.0},
    ),
    a_named("yolo", task="object detection", model={"builder": "b.c", "weights": "random"}),
    a_named("secret", task="object detection", hidden=True),
)


def names(**search: Any) -> list[str]:
    return [model.name for model in matching_models(MODELS, Search(**search))]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ({}, ["lite0", "resnet", "yolo"]),
        ({"terms": "IMAGE small"}, ["lite0"]),
        ({"task": "object detection"}, ["yolo"]),
        ({"framework": "litert"}, ["lite0"]),
        ({"framework": "onnxruntime"}, ["lite0", "yolo"]),
        ({"terms": "secret"}, []),
        ({"sort": "accuracy"}, ["resnet", "lite0", "yolo"]),
        ({"sort": "parameters"}, ["resnet", "lite0", "yolo"]),
        ({"sort": "size"}, ["resnet", "lite0", "yolo"]),
        ({"sort": "framework"}, ["lite0", "yolo", "resnet"]),
    ],
)
def test_models_are_sought_and_sorted(search: dict[str, Any], found: list[str]) -> None:
    assert names(**search) == found


def test_figures_stand_beside_their_source() -> None:
    shown = html_of(models_view(MODELS, Search(), on_none(MODELS)))
    assert "76.1%<small>top-1 on ImageNet-1K</small>" in shown
    assert "74.83%<small>top-1 on ImageNet</small>" in shown
    assert "≈ 100 MB" in shown
    assert ">18.9 MB<" in shown
    assert "random weights" in shown
    assert 'href="/models/lite0/1.0.0"' in shown
    assert "secret" not in shown


def test_a_page_holds_a_hundred_and_leads_to_the_next() -> None:
    many = [a_named(f"m{number:03}") for number in range(250)]
    shown = html_of(models_view(many, Search(terms="onnxruntime", page=2), on_none(many)))
    assert "101 to 200 of 250" in shown
    assert ">m100</a>" in shown
    assert ">m099</a>" not in shown
    assert 'href="/models?q=onnxruntime"' in shown
    assert 'href="/models?q=onnxruntime&amp;page=3"' in shown
    assert "No model matches" in html_of(models_view(many, Search(page=9), on_none(many)))


def test_a_model_s_page_holds_its_manifest_and_its_history() -> None:
    shown = html_of(model_view(MODELS[1]))
    assert "For small &lt;devices&gt;." in shown
    assert "mlscope run lite0:1.0.0" in shown
    assert 'href="/evaluations?model=lite0"' in shown
    text = shown[shown.index("<pre>") + 5 : shown.index("</pre>")].replace("&#39;", "'")
    assert (
        ModelManifest.model_validate(yaml.safe_load(text.replace("&lt;", "<").replace("&gt;", ">")))
        == MODELS[1]
    )


def test_a_model_says_where_it_runs_or_what_is_missing() -> None:
    groups = alike((an_agent("here"),))
    running = [running_of(model, groups) for model in MODELS]
    shown = html_of(models_view(MODELS, Search(), running))
    assert '<td class="runs" data-label="Runs on">here</td>' in shown
    assert "<summary>needs pytorch</summary>pytorch is not installed" in shown
    runnable = html_of(models_view(MODELS, Search(runs="now"), running))
    assert "lite0" in runnable
    assert "resnet" not in runnable
    assert Search(runs="now").address(page=2) == "/models?runs=now&page=2"


async def test_the_catalog_is_served(web: httpx.AsyncClient, standing: StandIns) -> None:
    standing.models = MODELS
    listed = await web.get("/models", params={"q": "small", "sort": "nonsense", "page": "x"})
    assert listed.status_code == 200
    assert "lite0" in listed.text
    assert "yolo" not in listed.text
    shown = await web.get("/models/lite0/1.0.0")
    assert "<h1>lite0 1.0.0</h1>" in shown.text
    missing = await web.get("/models/lite0/9.9.9")
    assert (missing.status_code, "No model lite0 9.9.9" in missing.text) == (404, True)
