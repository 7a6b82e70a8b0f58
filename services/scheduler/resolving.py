"""From names to manifests: which model, which dataset. Pure."""

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from mlscope.manifests.constraints import constraint_of, newest_first, satisfies
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.variants import variants_of
from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED, refused_in
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
    Synthetic,
)
from schemas.message import Message
from schemas.operators import placeholder_faults, step_faults
from schemas.plan import Subject
from schemas.request import Evaluate, SystemNeed
from schemas.status import Catalog
from services.scheduler.digests import digest_of
from services.scheduler.errors import invalid, unknown
from services.scheduler.naming import is_same

M = TypeVar("M", ModelManifest, DatasetManifest, HardwareManifest, SoftwareManifest)

DEFAULT_DATASETS = {"image": "photos"}
"""The dataset of a modality, for a model that names none."""


def model_of(request: Evaluate, catalog: Catalog) -> ModelManifest:
    """Return the model a request means. Raises RequestRefused.

    A hidden model is found under its own name and proposed to nobody.
    """
    if isinstance(request.model, ModelManifest):
        for fault in step_faults(request.model):
            raise invalid(f"model.{fault.path}", fault.found, fault.allowed)
        return request.model
    shown = [model.name for model in catalog.models if not model.hidden]
    return _named(request.model, catalog.models, "model", shown)


def dataset_of(request: Evaluate, model: ModelManifest, catalog: Catalog) -> DatasetManifest:
    """Return the dataset a request means: its own, the model's, or its modality's.

    A model of known shape and another modality gets normal noise. Raises RequestRefused.
    """
    if isinstance(request.dataset, DatasetManifest):
        dataset = request.dataset
    elif wanted := request.dataset or model.dataset:
        dataset = _named(wanted, catalog.datasets, "dataset", [d.name for d in catalog.datasets])
    else:
        dataset = _default(model, catalog)
    _check_samples(dataset, model)
    return dataset


def usable(variants: Sequence[ModelManifest]) -> Sequence[ModelManifest]:
    """Return the variants of a model that leave nothing out. Raises RequestRefused for none.

    What a listing leaves out parses; here it would be used.
    """
    faults = [next(placeholder_faults(each), None) for each in variants]
    whole = [each for each, fault in zip(variants, faults, strict=True) if fault is None]
    if not whole and faults[0] is not None:
        raise invalid(f"model.{faults[0].path}", faults[0].found, faults[0].allowed)
    return whole


def verifiable(variants: Sequence[ModelManifest], request: Evaluate) -> Sequence[ModelManifest]:
    """Return the variants whose files can be verified, or that a request takes all the same.

    Raises RequestRefused for none.
    """
    found = [refused_in(each.model, {**each.options, **request.options}) for each in variants]
    sure = [each for each, fault in zip(variants, found, strict=True) if fault is None]
    if not sure and found[0] is not None:
        allowed = (
            f"{UNVERIFIED}, which takes whatever {found[0].address} holds, or {RANDOM}: "
            f"the manifest gives no {found[0].field}"
        )
        raise invalid(f"options.{OPTION}", request.options.get(OPTION, ""), allowed)
    return sure


def sent_notes(request: Evaluate, catalog: Catalog) -> tuple[str, ...]:
    """Return what a reader should know of manifests that came with a request.

    One that has the name and number of a published one and says something else is no version of
    it: its results are not those of its namesake. A variant of the published one is the same.
    """
    notes = []
    for field, sent, known in (
        ("model", request.model, catalog.models),
        ("dataset", request.dataset, catalog.datasets),
    ):
        if isinstance(sent, str | None):
            continue
        namesake = _namesake(sent, known)
        if namesake is not None and not _is_of(sent, namesake):
            notes.append(
                f"{field} {sent.name} {sent.version} came with the request and is not the "
                f"published one of that name and number: sha256 {digest_of(sent)[:12]}, "
                f"published {digest_of(namesake)[:12]}; give it a version of its own"
            )
    return tuple(notes)


def _namesake(
    sent: ModelManifest | DatasetManifest, known: Sequence[ModelManifest | DatasetManifest]
) -> ModelManifest | DatasetManifest | None:
    own = (sent.name.lower(), sent.version)
    return next((each for each in known if (each.name.lower(), each.version) == own), None)


def _is_of(
    sent: ModelManifest | DatasetManifest, namesake: ModelManifest | DatasetManifest
) -> bool:
    """Tell whether a manifest is a published one, or one framework's part of it."""
    if sent == namesake:
        return True
    return isinstance(namesake, ModelManifest) and any(
        sent == each for each in variants_of(namesake)
    )


def described_system(need: SystemNeed, catalog: Catalog) -> SystemNeed:
    """Return a need with its manifests instead of their names. Raises RequestRefused."""
    changes: dict[str, Message] = {}
    if isinstance(need.hardware, str) and need.hardware:
        names = [each.name for each in catalog.hardware]
        changes["hardware"] = _named(need.hardware, catalog.hardware, "system.hardware", names)
    if isinstance(need.software, str) and need.software:
        names = [each.name for each in catalog.software]
        changes["software"] = _named(need.software, catalog.software, "system.software", names)
    return need.model_copy(update=changes) if changes else need


def planned_system(need: SystemNeed, subject: Subject) -> SystemNeed:
    """Return a need with the manifests that its plan has, instead of their names."""
    planned = {"hardware": subject.hardware, "software": subject.software}
    return need.model_copy(update={name: each for name, each in planned.items() if each})


def planned_frameworks(subject: Subject, catalog: Catalog) -> tuple[FrameworkManifest, ...]:
    """Return the framework manifests of a catalog, a plan's own in place of its namesake."""
    own = subject.framework_manifest
    if own is None:
        return catalog.frameworks
    others = (
        each
        for each in catalog.frameworks
        if not is_same(each.name, own.name) or each.version != own.version
    )
    return (own, *others)


def samples_of(dataset: DatasetManifest) -> int:
    """Return how many samples a dataset has; 0 of a source that does not say."""
    if dataset.source is not None:
        return dataset.source.samples
    return dataset.synthetic.samples if dataset.synthetic else len(dataset.samples)


def _name_and_version(text: str) -> tuple[str, str]:
    name, _, version = text.partition(":")
    return name.strip(), version.strip()


def _named(text: str, known: Sequence[M], field: str, shown: Sequence[str]) -> M:
    """Return the newest of a name whose version fits; `shown` are names to propose."""
    name, version = _name_and_version(text)
    try:
        constraint = constraint_of(version)
    except BadConstraint as error:
        raise invalid(field, text, str(error)) from error
    same = [each for each in known if each.name.lower() == name.lower()]
    if not same:
        raise unknown(field, name, near(name, shown))
    fitting = [each for each in same if satisfies(each.version, constraint)]
    if not fitting:
        raise unknown(field, text, (f"{each.name}:{each.version}" for each in same))
    return max(fitting, key=lambda each: newest_first(each.version))


def check_collectors(request: Evaluate, catalog: Catalog) -> None:
    """Raise RequestRefused for a collector that the request switches and no agent announced.

    Where an agent names none, as older ones do, it may have any. What is imported was collected
    elsewhere: its names are not those of the agent that plays it back.
    """
    asked = (each.announcement for each in catalog.agents)
    agents = [each for each in asked if each.reserved_for in ("", request.key)]
    if not agents or any(each.reserved_for or not each.collectors for each in agents):
        return
    known = {collector.name for each in agents for collector in each.collectors}
    for name in request.collectors:
        if name not in known:
            raise unknown(f"collectors.{name}", name, near(name, known))


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names nearest to one; all of a few when none is near."""
    names = sorted(set(known))
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=5, cutoff=0.6)
    return [by_lower[each] for each in found] or names[:10]


def _default(model: ModelManifest, catalog: Catalog) -> DatasetManifest:
    port = model.inputs[0] if model.inputs else None
    modality = port.type if port else ""
    shipped = DEFAULT_DATASETS.get(modality, "")
    if any(each.name == shipped for each in catalog.datasets):
        return _named(shipped, catalog.datasets, "dataset", ())
    shape = port.shape[1:] if port else ()
    if port is None or port.steps or not shape or any(size < 1 for size in shape):
        raise invalid("dataset", "", f"a dataset: model {model.name} names none")
    noise = Synthetic(shape=shape, element_type=port.element_type)
    return DatasetManifest(
        name="noise", description="Normal noise of the model's shape.", synthetic=noise
    )


def _check_samples(dataset: DatasetManifest, model: ModelManifest) -> None:
    if not samples_of(dataset) and dataset.source is None:
        raise invalid("dataset", dataset.name, "a dataset with at least one sample")
    port = model.inputs[0] if model.inputs else None
    if dataset.synthetic is None or port is None or port.steps or not port.shape:
        return
    wanted, found = port.shape[1:], dataset.synthetic.shape
    if not found or dataset.synthetic.inputs:
        return  # the agent makes what the opened model takes
    if len(wanted) != len(found) or any(
        w not in (-1, f) for w, f in zip(wanted, found, strict=True)
    ):
        raise invalid(
            "dataset",
            f"{dataset.name} of shape {list(found)}",
            f"samples of shape {list(wanted)}, which model {model.name} takes",
        )
