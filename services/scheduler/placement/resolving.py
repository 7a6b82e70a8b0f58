"""The manifests that a request's names mean: its model, its dataset, its system. Pure."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from mlscope.manifests.constraints import constraint_of, satisfies, version_order
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.naming import naming_faults
from mlscope.manifests.spelling import close_names
from mlscope.manifests.variants import frameworks_of, variants_of
from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED, refused_in
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
    Synthetic,
)
from schemas.manifest.operators import placeholder_faults, step_faults
from schemas.message import Message
from schemas.plan import Subject
from schemas.request import Evaluate, SystemNeed
from schemas.status import Catalog
from schemas.values.framework_names import FRAMEWORKS
from services.scheduler.errors import invalid, unknown
from services.scheduler.placement.naming import is_same

M = TypeVar("M", ModelManifest, DatasetManifest, HardwareManifest, SoftwareManifest)

DEFAULT_DATASETS = {"image": "photos"}
"""The dataset of a modality, for a model that names none."""


def model_of(request: Evaluate, catalog: Catalog) -> ModelManifest:
    """Return the model of a request. Raises RequestRefused.

    A hidden model is found under its own name, but never proposed.
    """
    if isinstance(request.model, ModelManifest):
        _check_names("model", request.model, catalog)
        for fault in step_faults(request.model):
            raise invalid(f"model.{fault.path}", fault.found, fault.allowed)
        return request.model
    shown = [model.name for model in catalog.models if not model.hidden]
    return _newest_named(request.model, catalog.models, "model", shown)


def dataset_of(request: Evaluate, model: ModelManifest, catalog: Catalog) -> DatasetManifest:
    """Return the dataset of a request: its own, that of its `model`, or that of the modality.

    Where the `catalog` has none of these, a model of known shape gets normal noise. Raises
    RequestRefused.
    """
    names = [dataset.name for dataset in catalog.datasets]
    if isinstance(request.dataset, DatasetManifest):
        dataset = request.dataset
        _check_names("dataset", dataset, catalog)
    elif name := request.dataset or model.dataset:
        dataset = _newest_named(name, catalog.datasets, "dataset", names)
    else:
        dataset = default_dataset(model, catalog)
    _check_samples(dataset, model)
    return dataset


def wanted_variants(request: Evaluate, model: ModelManifest) -> list[ModelManifest]:
    """Return a request's model for the framework it names, or for each the model has; at least one.

    Raises RequestRefused where `model` is for other frameworks.
    """
    need = request.framework
    variants = list(variants_of(model))
    if need is None or not need.name.strip():
        return variants
    of_framework = [v for v in variants if is_same(need.name, v.framework.name)]
    if not of_framework:
        allowed = ", ".join(framework.name for framework in frameworks_of(model))
        raise invalid("framework.name", need.name, f"{allowed}, as {model.name} needs")
    return of_framework


def usable(variants: Sequence[ModelManifest]) -> Sequence[ModelManifest]:
    """Return the variants of a model without placeholders. Raises RequestRefused for none.

    A placeholder stands for what a listing of the original system left out.
    """
    faults = [next(placeholder_faults(variant), None) for variant in variants]
    complete = [variant for variant, fault in zip(variants, faults, strict=True) if fault is None]
    if not complete and faults[0] is not None:
        raise invalid(f"model.{faults[0].path}", faults[0].found, faults[0].allowed)
    return complete


def verifiable(variants: Sequence[ModelManifest], request: Evaluate) -> Sequence[ModelManifest]:
    """Return the variants whose files can be verified, or that a request takes without that.

    Raises RequestRefused for none.
    """
    faults = [
        refused_in(variant.model, {**variant.options, **request.options}) for variant in variants
    ]
    verified = [variant for variant, fault in zip(variants, faults, strict=True) if fault is None]
    if not verified and faults[0] is not None:
        allowed = (
            f"{UNVERIFIED}, which takes whatever {faults[0].address} holds, or {RANDOM}: "
            f"the manifest gives no {faults[0].field}"
        )
        raise invalid(f"options.{OPTION}", request.options.get(OPTION, ""), allowed)
    return verified


def described_system(need: SystemNeed, catalog: Catalog) -> SystemNeed:
    """Return a need with its manifests instead of their names. Raises RequestRefused."""
    changes: dict[str, Message] = {}
    if isinstance(need.hardware, str) and need.hardware:
        names = [manifest.name for manifest in catalog.hardware]
        field = "system.hardware"
        changes["hardware"] = _newest_named(need.hardware, catalog.hardware, field, names)
    if isinstance(need.software, str) and need.software:
        names = [manifest.name for manifest in catalog.software]
        field = "system.software"
        changes["software"] = _newest_named(need.software, catalog.software, field, names)
    return need.model_copy(update=changes) if changes else need


def planned_system(need: SystemNeed, subject: Subject) -> SystemNeed:
    """Return a need with the manifests of its plan, instead of their names."""
    planned = {"hardware": subject.hardware, "software": subject.software}
    return need.model_copy(
        update={name: manifest for name, manifest in planned.items() if manifest}
    )


def planned_frameworks(subject: Subject, catalog: Catalog) -> tuple[FrameworkManifest, ...]:
    """Return the framework manifests of a catalog, with a plan's own in place of its namesake."""
    own = subject.framework_manifest
    if own is None:
        return catalog.frameworks
    published = (
        manifest
        for manifest in catalog.frameworks
        if not is_same(manifest.name, own.name) or manifest.version != own.version
    )
    return (own, *published)


def samples_of(dataset: DatasetManifest) -> int:
    """Return the number of samples in a dataset; 0 for a source that does not say."""
    if dataset.source is not None:
        return dataset.source.samples
    return dataset.synthetic.samples if dataset.synthetic else len(dataset.samples)


def _newest_named(text: str, manifests: Sequence[M], field: str, shown: Sequence[str]) -> M:
    """Return the newest manifest that a text `NAME[:CONSTRAINT]` means.

    `field` is the request's field that holds the text, `shown` are the names to propose instead.
    Raises RequestRefused.
    """
    name, _, version = (part.strip() for part in text.partition(":"))
    try:
        constraint = constraint_of(version)
    except BadConstraint as error:
        raise invalid(field, text, str(error)) from error
    same = [manifest for manifest in manifests if manifest.name.lower() == name.lower()]
    if not same:
        raise unknown(field, name, similar_names(name, shown), shown)
    fitting = [manifest for manifest in same if satisfies(manifest.version, constraint)]
    if not fitting:
        raise unknown(field, text, (), (f"{manifest.name}:{manifest.version}" for manifest in same))
    return max(fitting, key=lambda manifest: version_order(manifest.version))


def check_collectors(request: Evaluate, catalog: Catalog) -> None:
    """Raise RequestRefused for a collector that the request switches and no agent announced.

    So is one that is switched on and begins at a deeper level than the request traces.
    An agent that announces no collectors, as older ones do, may have any. An import was collected
    elsewhere: its collectors are not those of the agent that plays it back.
    """
    if not request.collectors:
        return
    announced = (status.announcement for status in catalog.agents)
    agents = [agent for agent in announced if agent.reserved_for in ("", request.key)]
    if not agents or any(agent.reserved_for or not agent.collectors for agent in agents):
        return
    collectors = {collector.name for agent in agents for collector in agent.collectors}
    for name in request.collectors:
        if name not in collectors:
            similar = similar_names(name, collectors)
            raise unknown(f"collectors.{name}", name, similar, collectors)
    for name, switch in request.collectors.items():
        levels = [
            level
            for agent in agents
            for collector in agent.collectors
            if collector.name == name
            for level in collector.levels
        ]
        if switch is not False and levels and min(levels) > request.trace_level:
            first, level = min(levels).name.lower(), request.trace_level.name.lower()
            deeper = f"trace_level {first} or deeper, where {name} begins"
            raise invalid("trace_level", level, deeper)


def similar_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are similar to a name, the most similar first; at most five.

    Those of this name behind their source come first, as torchvision-resnet50 of resnet50; those
    that contain it, of three letters or more, come after those that are spelt alike.
    """
    by_lower = {candidate.lower(): candidate for candidate in sorted(set(candidates))}
    lower_name = name.lower()
    letters = "".join(filter(str.isalnum, lower_name))
    sourced = [
        lower
        for lower in by_lower
        if letters and "".join(filter(str.isalnum, lower.partition("-")[2])) == letters
    ]
    similar = close_names(lower_name, by_lower, most=5)
    longer = [lower for lower in by_lower if len(lower_name) > 2 and lower_name in lower]
    return [by_lower[lower] for lower in dict.fromkeys([*sourced, *similar, *longer])][:5]


def default_dataset(model: ModelManifest, catalog: Catalog) -> DatasetManifest:
    """Return the dataset of a model that names none: its modality's, else noise of its shape.

    Raises RequestRefused for a model whose shape is not known.
    """
    port = next(iter(model.inputs), None)
    shipped = DEFAULT_DATASETS.get(port.type if port else "", "")
    if any(dataset.name == shipped for dataset in catalog.datasets):
        return _newest_named(shipped, catalog.datasets, "dataset", ())
    shape = port.shape[1:] if port else ()
    if port is None or port.steps or not shape or any(size < 1 for size in shape):
        raise invalid("dataset", "", f"a dataset: model {model.name} has no default")
    noise = Synthetic(shape=shape, element_type=port.element_type)
    return DatasetManifest(
        name="noise", description="Normal noise of the model's shape.", synthetic=noise
    )


def _check_names(field: str, manifest: ModelManifest | DatasetManifest, catalog: Catalog) -> None:
    """Raise RequestRefused for a name in a sent manifest that nothing can ever match.

    `field` is the request's field that holds it. What agents announce counts as spelt right.
    """
    announced = (own for status in catalog.agents for own in status.announcement.runtimes)
    frameworks = {*FRAMEWORKS, *(runtime.framework.lower() for runtime in announced)}
    for fault in naming_faults(manifest, frameworks, is_published=False):
        raise invalid(f"{field}.{fault.field}", fault.found.strip("'"), fault.allowed)


def _check_samples(dataset: DatasetManifest, model: ModelManifest) -> None:
    """Raise RequestRefused for a dataset without samples, or with noise of another shape."""
    if not samples_of(dataset) and dataset.source is None:
        raise invalid("dataset", dataset.name, "a dataset with at least one sample")
    synthetic, port = dataset.synthetic, next(iter(model.inputs), None)
    if synthetic is None or not synthetic.shape or synthetic.inputs:
        return  # the agent makes samples that fit the opened model
    if port is None or port.steps or not port.shape:
        return
    model_shape, sample_shape = port.shape[1:], synthetic.shape
    if len(model_shape) != len(sample_shape) or any(
        size not in (-1, sample_size)
        for size, sample_size in zip(model_shape, sample_shape, strict=True)
    ):
        raise invalid(
            "dataset",
            f"{dataset.name} of shape {list(sample_shape)}",
            f"samples of shape {list(model_shape)}, which model {model.name} takes",
        )
