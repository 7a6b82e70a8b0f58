"""`mlscope plan`: an evaluation planned here, to be run on a machine without broker or database."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from cli import exits
from cli.request import request_from
from mlscope.assets.addresses import FileSource, address_of, parse
from mlscope.assets.errors import BadAddress
from mlscope.client.errors import EvaluationRefused
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint, ManifestFaulty
from mlscope.settings import Settings
from schemas.agent import Accelerator, Announcement, CollectorFacts, Hardware, Runtime
from schemas.identity import new_evaluation_id
from schemas.level import Level
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    Manifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.plan import OfflinePlan
from schemas.request import Evaluate, Refused, SystemNeed
from schemas.status import AgentStatus, Catalog
from services.registry.manifests import read_manifests
from services.scheduler.errors import RequestRefused
from services.scheduler.matching import match
from services.scheduler.planning import plan as plan_match
from services.scheduler.resolving import model_of

PRESUMED_DEPTH = Level.FRAMEWORK
PRESUMED_COLLECTORS = (
    CollectorFacts(name="presumed", levels=(Level.SYSTEM,)),
    CollectorFacts(name="presumed-gpu", levels=(Level.HARDWARE,), devices=("gpu",)),
)
"""How deep a machine that is not known yet can trace; a run says what it really traced."""

_AGENT = "offline"

M = TypeVar("M")


def plan(arguments: argparse.Namespace) -> int:
    """Write a plan file made of the shipped manifests and the arguments."""
    settings = Settings.read(os.environ)
    request = offline_request(request_from(arguments))
    made = offline_plan(request, shipped_catalog(settings.manifests_folder))
    text = made.model_dump_json(indent=2) + "\n"
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, "utf-8")
        runs = sum(len(session.runs) for session in made.plan.sessions)
        print(f"{arguments.out}: {runs} runs; now there: mlscope agent --plan …", file=sys.stderr)
    for line in brought_along(request):
        print(line, file=sys.stderr)
    return exits.OK


def brought_along(request: Evaluate) -> list[str]:
    """Return a line for each place where files must lie that are named in a plan, not in it."""
    lines = []
    if isinstance(request.model, ModelManifest):
        folder = "below models/ of the manifests there (MLSCOPE_MANIFESTS)"
        lines += _line(_model_addresses(request.model), folder)
    if isinstance(dataset := request.dataset, DatasetManifest):
        samples = [each.path for each in dataset.samples]
        samples += [one.path for each in dataset.samples for one in each.inputs.values()]
        folder = "below datasets/ of the manifests there (MLSCOPE_MANIFESTS)"
        lines += _line(samples, folder)
        source = [dataset.source.address] if dataset.source else []
        lines += _line(source, f"at that path, below MLSCOPE_DATASET_FOLDERS there, or {folder}")
    return lines


def _model_addresses(model: ModelManifest) -> Iterable[str]:
    for assets in (model.model, *(each.model for each in model.frameworks)):
        named = [assets.graph_path, assets.weights_path, *assets.assets]
        for name in [assets.archive] if assets.archive else named:
            if name:
                yield address_of(assets, name)


def _line(addresses: Iterable[str], place: str) -> list[str]:
    """Return what is said of the files among some addresses; nothing where there is none."""
    paths = []
    for address in addresses:
        with contextlib.suppress(BadAddress):
            if isinstance(source := parse(address), FileSource):
                paths.append(source.path)
    return [f"bring along, {place}: {', '.join(dict.fromkeys(paths))}"] if paths else []


def offline_request(request: Evaluate) -> Evaluate:
    """Return the request as one machine can run it: its own pacing, one agent's name."""
    agents = request.agents[:1] or (_AGENT,)
    return request.model_copy(update={"agents": agents, "pacing": "local", "spread": "one"})


def offline_plan(request: Evaluate, catalog: Catalog) -> OfflinePlan:
    """Plan for a machine that has what the request asks for. Raises EvaluationRefused."""
    try:
        there = presumed_agent(request, model_of(request, catalog))
        catalog = catalog.model_copy(update={"agents": (there,)})
        found = match(request, catalog, {})
        if not found.agents:
            raise EvaluationRefused(
                Refused(error="unsatisfiable", message="no machine fits", agents=found.reasons)
            )
        planned = plan_match(request, found, catalog)
    except RequestRefused as refused:
        raise EvaluationRefused(refused.refused) from refused
    # The machine's own version is not known here: it is what the bundle will say.
    subject = planned.subject.model_copy(update={"framework_version": ""})
    return OfflinePlan(
        evaluation=new_evaluation_id(),
        plan=planned.model_copy(update={"subject": subject}),
        request=request,
    )


def presumed_agent(request: Evaluate, model: ModelManifest) -> AgentStatus:
    """Return an agent that has whatever the request needs of a machine."""
    need = request.system
    announcement = Announcement(
        agent=request.agents[0],
        incarnation="offline",
        hardware=Hardware(
            hostname=request.agents[0],
            architecture=need.architecture or "any",
            memory_bytes=need.memory_bytes,
            interconnect=need.interconnect,
            accelerators=_accelerators(need),
        ),
        runtimes=(
            Runtime(
                framework=model.framework.name,
                version=_fitting_version(request, model),
                devices=(need.device or "cpu",),
                deepest_level=PRESUMED_DEPTH,
            ),
        ),
        collectors=PRESUMED_COLLECTORS,
        labels=need.labels,
        allows_inline_python=True,
    )
    return AgentStatus(announcement=announcement)


def _accelerators(need: SystemNeed) -> tuple[Accelerator, ...]:
    if need.device in ("", "cpu") and not need.accelerator:
        return ()
    name = need.accelerator or need.device
    return (Accelerator(name=name, memory_bytes=need.accelerator_memory_bytes),)


def _fitting_version(request: Evaluate, model: ModelManifest) -> str:
    """Return a version that every constraint allows: one that is named in them."""
    texts = [model.framework.version, request.framework.version if request.framework else ""]
    try:
        constraints = [constraint_of(text) for text in texts]
    except BadConstraint:
        return "0"
    named = [each.version.removesuffix(".*") for every in constraints for each in every]
    fitting = (v for v in named if all(satisfies(v, each) for each in constraints))
    return next(fitting, "1.0.0")


def shipped_catalog(folder: Path) -> Catalog:
    """Return the manifests of a folder as a catalog without agents."""
    found: list[Manifest] = [
        each for each in read_manifests(folder) if not isinstance(each, ManifestFaulty)
    ]
    return Catalog(
        models=_of(ModelManifest, found),
        frameworks=_of(FrameworkManifest, found),
        datasets=_of(DatasetManifest, found),
        scenarios=_of(ScenarioManifest, found),
        hardware=_of(HardwareManifest, found),
        software=_of(SoftwareManifest, found),
    )


def _of(kind: type[M], found: Iterable[Manifest]) -> tuple[M, ...]:
    return tuple(each for each in found if isinstance(each, kind))
