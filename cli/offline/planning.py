"""Plans for machines without a broker: a request, matched against a machine that suits it."""

import contextlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TypeVar

from mlscope.assets.addresses import FileSource, address_of, parse
from mlscope.assets.errors import BadAddress
from mlscope.client.errors import EvaluationRefused
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint, ManifestFaulty
from mlscope.manifests.folders import read_manifests
from mlscope.manifests.reading import kinds
from schemas.agent import Accelerator, Announcement, CollectorFacts, Hardware, Runtime
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
from schemas.request import Evaluate, Refused
from schemas.status import AgentStatus, Catalog
from schemas.values.identity import new_evaluation_id
from services.agent.predictors.devices import option_names
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan as plan_match
from services.scheduler.placement.resolving import model_of

PRESUMED_DEPTH = Level.FRAMEWORK
PRESUMED_COLLECTORS = (
    CollectorFacts(name="presumed", levels=(Level.SYSTEM,)),
    CollectorFacts(name="presumed-gpu", levels=(Level.HARDWARE,), devices=("gpu",)),
)
"""How deep an unknown machine is assumed to trace; each run reports what it really traced."""

_AGENT = "offline"
_MANIFESTS_THERE = "the manifests on that machine (MLSCOPE_MANIFESTS)"

M = TypeVar("M")


def files_to_copy(request: Evaluate) -> list[str]:
    """Return instructions for the files that a plan only names: a line for each target folder."""
    lines = []
    if isinstance(model := request.model, ModelManifest):
        addresses: list[str] = []
        for assets in (model.model, *(variant.model for variant in model.frameworks)):
            names = (assets.graph_path, assets.weights_path, *assets.assets)
            paths = (assets.archive,) if assets.archive else names
            addresses += [address_of(assets, path) for path in paths if path]
        lines += _copy_line(addresses, f"models/ of {_MANIFESTS_THERE}")
    if isinstance(dataset := request.dataset, DatasetManifest):
        inputs = chain.from_iterable(sample.inputs.values() for sample in dataset.samples)
        samples = [sample.path for sample in dataset.samples]
        samples += [sample_input.path for sample_input in inputs]
        datasets_folder = f"datasets/ of {_MANIFESTS_THERE}"
        lines += _copy_line(samples, datasets_folder)
        source = [dataset.source.address] if dataset.source else []
        lines += _copy_line(
            source, f"the same path, below its MLSCOPE_DATASET_FOLDERS, or to {datasets_folder}"
        )
    return lines


def _copy_line(addresses: Iterable[str], target: str) -> list[str]:
    """Return the instruction to copy the files among `addresses`; none without files."""
    paths: dict[str, None] = {}
    for address in addresses:
        source = None
        with contextlib.suppress(BadAddress):
            source = parse(address)
        if isinstance(source, FileSource):
            paths[source.path] = None
    return [f"copy to {target}: {', '.join(paths)}"] if paths else []


def offline_request(request: Evaluate) -> Evaluate:
    """Return the request for a single machine: local pacing, one agent."""
    agents = request.agents[:1] or (_AGENT,)
    return request.model_copy(update={"agents": agents, "pacing": "local", "spread": "one"})


def offline_plan(request: Evaluate, catalog: Catalog) -> OfflinePlan:
    """Plan for a machine that has what the request requires. Raises EvaluationRefused."""
    try:
        machine = presumed_agent(request, model_of(request, catalog))
        catalog = catalog.model_copy(update={"agents": (machine,)})
        matched = match(request, catalog, {})
        if not matched.agents:
            refused = Refused(
                error="unsatisfiable",
                message="no machine can satisfy the request",
                agents=matched.reasons,
            )
            raise EvaluationRefused(refused)
        plan = plan_match(request, matched, catalog)
    except RequestRefused as error:
        raise EvaluationRefused(error.refused) from error
    # The framework's version on that machine is unknown until its bundle reports it.
    subject = plan.subject.model_copy(update={"framework_version": ""})
    return OfflinePlan(
        evaluation=new_evaluation_id(),
        plan=plan.model_copy(update={"subject": subject}),
        request=request,
    )


def presumed_agent(request: Evaluate, model: ModelManifest) -> AgentStatus:
    """Return an agent with everything that `request` and `model` require of a machine."""
    system = request.system
    accelerators: tuple[Accelerator, ...] = ()
    if system.accelerator or system.device not in ("", "cpu"):
        name = system.accelerator or system.device
        accelerators = (Accelerator(name=name, memory_bytes=system.accelerator_memory_bytes),)
    announcement = Announcement(
        agent=request.agents[0],
        incarnation="offline",
        hardware=Hardware(
            hostname=request.agents[0],
            architecture=system.architecture or "any",
            memory_bytes=system.memory_bytes,
            interconnect=system.interconnect,
            accelerators=accelerators,
        ),
        runtimes=(
            Runtime(
                framework=model.framework.name,
                version=suitable_version(request, model),
                devices=(system.device or "cpu",),
                deepest_level=PRESUMED_DEPTH,
                options=option_names(model.framework.name),
            ),
        ),
        collectors=PRESUMED_COLLECTORS,
        labels=system.labels,
        allows_inline_python=True,
    )
    return AgentStatus(announcement=announcement)


def suitable_version(request: Evaluate, model: ModelManifest) -> str:
    """Return a framework version that satisfies all constraints: one that they mention.

    The constraints are those of `request` and `model` together; 0 where one cannot be read.
    """
    texts = [model.framework.version, request.framework.version if request.framework else ""]
    try:
        constraints = [constraint_of(text) for text in texts]
    except BadConstraint:
        return "0"
    mentioned = [
        bound.version.removesuffix(".*") for constraint in constraints for bound in constraint
    ]
    suitable = (
        version
        for version in mentioned
        if all(satisfies(version, constraint) for constraint in constraints)
    )
    return next(suitable, "1.0.0")


def shipped_catalog(folder: Path, of_kinds: Iterable[str] = kinds()) -> Catalog:
    """Return the manifests of a `folder` as a catalog without agents; `of_kinds`: which kinds."""
    manifests: list[Manifest] = [
        manifest
        for manifest in read_manifests(folder, of_kinds)
        if not isinstance(manifest, ManifestFaulty)
    ]

    def of_kind(kind: type[M]) -> tuple[M, ...]:
        return tuple(manifest for manifest in manifests if isinstance(manifest, kind))

    return Catalog(
        models=of_kind(ModelManifest),
        frameworks=of_kind(FrameworkManifest),
        datasets=of_kind(DatasetManifest),
        scenarios=of_kind(ScenarioManifest),
        hardware=of_kind(HardwareManifest),
        software=of_kind(SoftwareManifest),
    )
