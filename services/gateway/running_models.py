"""The catalog's models and where each runs, worked out once for each state of the catalog."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.manifests.fitting import Running, alike, running_of
from schemas.manifest import ModelManifest
from schemas.status import AgentStatus, Catalog
from services.gateway.bus_requests import agents
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.responses import json_text


@dataclass(frozen=True, slots=True)
class ModelsNow:
    """The `models` of one state of the catalog, hidden ones too, and where they run."""

    models: tuple[ModelManifest, ...]
    agents: tuple[AgentStatus, ...]
    #: in the order of the models
    running: tuple[Running, ...]
    #: the answer with all models that are not hidden, and the one with those that run now, as JSON
    shown: bytes
    runnable: bytes


class RunningModels:
    """Works models out again when the catalog has changed: for hundreds that takes 0.2 s."""

    def __init__(self, recent: RecentCatalog) -> None:
        """Begin with none; the models are those that `recent` has read."""
        self._recent = recent
        self._turn = asyncio.Lock()
        self._now: ModelsNow | None = None

    async def get(self, bus: Bus) -> ModelsNow:
        """Return all models as they are now, from `bus`. Raises CommandRefused, NotAnswering.

        While the answers of the registry stay the same, so do the models and agents read from them.
        """
        models, fleet = await asyncio.gather(self._recent.models(bus), agents(bus))
        async with self._turn:
            now = self._now
            if now is None or now.models is not models or now.agents is not fleet:
                now = self._now = await asyncio.to_thread(_worked_out, models, fleet)
            return now


def _worked_out(models: tuple[ModelManifest, ...], fleet: tuple[AgentStatus, ...]) -> ModelsNow:
    groups = alike(fleet)
    running = tuple(running_of(model, groups) for model in models)
    pairs = zip(models, running, strict=True)
    shown = [(model, where) for model, where in pairs if not model.hidden]
    runnable = [(model, where) for model, where in shown if where.agents]
    answers = [json_text(models_answer(listed)).encode() for listed in (shown, runnable)]
    return ModelsNow(models, fleet, running, *answers)


def models_answer(listed: Sequence[tuple[ModelManifest, Running]]) -> Mapping[str, Any]:
    """Return models, each with where it runs or what is missing, as the fields of an answer."""
    catalog = Catalog(models=tuple(model for model, _ in listed))
    running = [
        {
            "model": model.name,
            "version": model.version,
            "agents": where.agents,
            "missing": [{"part": lack.part, "reason": lack.text} for lack in where.missing],
            "option": where.option,
        }
        for model, where in listed
    ]
    return {**catalog.model_dump(mode="json", include={"models"}), "running": running}
