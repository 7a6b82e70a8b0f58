"""The catalog's models as a request for each would have them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.offline.planning import offline_plan, offline_request, shipped_catalog
from mlscope.assets.addresses import HttpSource, HubSource, PackageSource, address_of, parse
from mlscope.client.errors import EvaluationRefused
from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED
from schemas.manifest import Assets, ModelManifest
from schemas.plan import Subject
from schemas.request import Evaluate, SystemNeed
from schemas.status import Catalog

HUB = "the model hub"


@dataclass(frozen=True, slots=True)
class Tried:
    """A model, what a session of it is opened with, and where its published weights are."""

    name: str
    framework: str
    #: None where no plan can be made, for this `fault`
    subject: Subject | None
    fault: str
    #: a host, `the model hub`, `a package`, `mlscope`, or `none` where nobody publishes any
    weights_at: str


def models_of(folder: Path, device: str, weights: str) -> list[Tried]:
    """Return the models of a manifests `folder`, by framework and name.

    `device` is cpu or gpu; `weights` are `random` where a builder makes the model, or `published`.
    """
    catalog = shipped_catalog(folder)
    models = [_tried(model, catalog, device, weights) for model in catalog.models]
    return sorted(models, key=lambda model: (model.framework, model.name))


def _tried(model: ModelManifest, catalog: Catalog, device: str, weights: str) -> Tried:
    options: dict[str, Any] = {OPTION: RANDOM if weights == "random" else UNVERIFIED}
    if not model.model.builder or model.model.weights == RANDOM:
        options = {}
    request = Evaluate(model=model.name, system=SystemNeed(device=device), options=options)
    subject, fault = None, ""
    try:
        subject = offline_plan(offline_request(request), catalog).plan.subject
    except EvaluationRefused as error:
        fault = str(error)
    framework = model.framework.name
    return Tried(model.name, framework, subject, fault, weights_place(model.model))


def weights_place(assets: Assets) -> str:
    """Return where a model's published weights are, as `Tried.weights_at` has it."""
    name = assets.archive or assets.weights_path or ("" if assets.builder else assets.graph_path)
    if not name:
        return "none"
    match parse(address_of(assets, name)):
        case HttpSource(url=url):
            return urlsplit(url).hostname or ""
        case HubSource():
            return HUB
        case PackageSource():
            return "a package"
    return "mlscope"
