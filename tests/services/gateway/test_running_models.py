"""Where models run is worked out once for each state of the catalog."""

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from mlscope.manifests.fitting import Alike, Running
from mlscope.manifests.fitting import running_of as real_running_of
from schemas.manifest import ModelManifest
from services.gateway import running_models
from tests.services.scheduler.samples import an_agent
from tests.stand_ins import StandIns
from tests.stories import a_model


@pytest.fixture
def asked_about(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the models that were worked out, each as often as it was."""
    names: list[str] = []

    def counted(model: ModelManifest, groups: Sequence[Alike]) -> Running:
        names.append(model.name)
        return real_running_of(model, groups)

    monkeypatch.setattr(running_models, "running_of", counted)
    return names


async def test_models_are_worked_out_once_for_all_who_ask(
    web: httpx.AsyncClient, standing: StandIns, asked_about: list[str]
) -> None:
    standing.models = tuple(a_model().model_copy(update={"name": name}) for name in ("a", "b"))
    addresses = ("/api/models", "/api/models?runnable=true", "/models", "/models?runs=now")
    answers = await asyncio.gather(*(web.get(address) for address in 8 * addresses))
    assert {answer.status_code for answer in answers} == {200}
    assert asked_about == ["a", "b"]
    assert [model["name"] for model in answers[0].json()["models"]] == ["a", "b"]


async def test_a_change_of_models_or_agents_counts_at_once(
    web: httpx.AsyncClient, standing: StandIns, asked_about: list[str]
) -> None:
    standing.models = (a_model(),)
    (running,) = (await web.get("/api/models")).json()["running"]
    assert running["agents"] == []
    standing.agents = (an_agent("here"),)
    (running,) = (await web.get("/api/models?runnable=true")).json()["running"]
    assert running["agents"] == ["here"]
    standing.models = (a_model().model_copy(update={"name": "other"}),)
    assert [model["name"] for model in (await web.get("/api/models")).json()["models"]] == ["other"]
    assert "other" in (await web.get("/models")).text
    assert asked_about == ["tiny", "tiny", "other"]
