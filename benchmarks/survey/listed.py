"""Models of the catalog by name, measured as `mlscope agent --plan` does: a worker a session."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.survey.bounds import NO_BOUND, Bound
from benchmarks.survey.measuring import ALLOWED, ROOFS, Outcome
from cli.offline.planning import offline_plan, offline_request, shipped_catalog
from mlscope.settings import Settings
from schemas.plan import OfflinePlan, Subject
from schemas.request import Evaluate, SystemNeed
from services.agent.host.offline import OfflineResources, run_plan
from services.agent.link.allowances import Allowances
from services.scheduler.placement.resolving import model_of

BATCH_SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of the catalog: what `mlscope plan NAME` would measure, on its own dataset."""

    name: str
    batch_sizes: Sequence[int] = BATCH_SIZES
    #: the weights its builder draws, if it has one: where the published ones can't be had
    is_random: bool = False

    def subject(self, device: str) -> Subject:
        """Return what is measured, on a device. Raises EvaluationRefused."""
        catalog = shipped_catalog(Settings.read(os.environ).manifests_folder)
        fields: dict[str, Any] = {"model": self.name, "system": SystemNeed(device=device)}
        request = Evaluate(**fields)
        model = model_of(request, catalog) if self.is_random else None
        if model is not None and model.model.builder:
            no_weights = {"weights_path": "", "weights_checksum": "", "weights": "random"}
            assets = model.model.model_copy(update=no_weights)
            redrawn = model.model_copy(update={"model": assets})
            request = Evaluate(**{**fields, "model": redrawn})
        return offline_plan(offline_request(request), catalog).plan.subject


def measure(plan: OfflinePlan, path: Path, bound: Bound = NO_BOUND) -> list[Outcome]:
    """Measure a plan by workers of their own, files fetched as an agent would. Raises TimeIsUp."""
    settings = Settings.read(os.environ)
    own = Allowances.of(settings)
    allowed = ALLOWED if own.builders == Allowances().builders else own
    means = OfflineResources(
        manifests_folder=settings.manifests_folder,
        assets=settings,
        allowances=allowed,
        roofs_folder=path.parent / ROOFS,
    )
    outcomes = run_plan(bound.on(plan), path, means, on_fact=bound.check)
    bound.judge(outcomes)
    return outcomes
