"""Faults of a manifest that parses: values that every evaluation with it would be refused for."""

from base64 import b64decode
from collections.abc import Collection, Iterator, Sequence

from packaging.version import InvalidVersion, Version

from mlscope.datasets.opening import reader_names
from mlscope.manifests.constraints import CONSTRAINTS, constraint_of
from mlscope.manifests.errors import BadConstraint, Fault
from mlscope.manifests.files import file_faults
from mlscope.manifests.naming import naming_faults
from mlscope.manifests.ports import ELEMENT_TYPES, code_faults, port_faults
from mlscope.manifests.spelling import close_names
from mlscope.manifests.verifying import unverifiable_in
from schemas.manifest import DatasetManifest, FrameworkManifest, Manifest, ModelManifest, Sample
from schemas.manifest.operators import step_faults
from schemas.values.framework_names import FRAMEWORKS

_ARCHITECTURES = ("amd64", "x86_64", "arm64", "aarch64", "ppc64le", "s390x", "riscv64")
_DEVICES = ("cpu", "gpu")
_CHECKSUMS = "sha256:…, md5:…, a hub's commit in the address, or the field `unverifiable: REASON`"


def faults_in(manifest: Manifest, frameworks: Collection[str] = FRAMEWORKS) -> Iterator[Fault]:
    """Yield every fault for which each evaluation with the manifest would be refused.

    `frameworks` are those whose names count as spelt right, in lower case.
    """
    try:
        Version(manifest.version)
    except InvalidVersion:
        yield Fault("version", repr(manifest.version), "a version, as 1.0.0")
    yield from naming_faults(manifest, frameworks)
    match manifest:
        case DatasetManifest():
            yield from dataset_faults(manifest)
        case ModelManifest():
            yield from model_faults(manifest)
        case FrameworkManifest():
            yield from container_faults(manifest)


def container_faults(framework: FrameworkManifest) -> Iterator[Fault]:
    """Yield architectures and devices that no agent has, among those of a framework's images."""
    for architecture, images in framework.containers.items():
        field = f"containers.{architecture}"
        yield from _misspelt(field, architecture, _ARCHITECTURES)
        for device in images:
            yield from _misspelt(f"{field}.{device}", device, _DEVICES)


def model_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield the faults of a model's steps, ports, code, files, constraints and checksums."""
    for fault in step_faults(model):
        yield Fault(fault.path, fault.found, fault.allowed)
    yield from port_faults(model)
    yield from code_faults(model)
    yield from file_faults(model)
    yield from constraint_faults(model)
    variants = ((f"frameworks.{n}.model", entry.model) for n, entry in enumerate(model.frameworks))
    for field, assets in (("model", model.model), *variants):
        for file in () if assets.unverifiable else unverifiable_in(assets):
            yield Fault(f"{field}.{file.field}", f"nothing for {file.address}", _CHECKSUMS)


def constraint_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield the constraints on versions of a model's frameworks and builders that are none.

    Nor is one of a builder that is not named.
    """
    constraints = {"framework.version": model.framework.version}
    assets_by_field = {"model": model.model}
    for number, entry in enumerate(model.frameworks):
        constraints[f"frameworks.{number}.version"] = entry.version
        assets_by_field[f"frameworks.{number}.model"] = entry.model
    for name, assets in assets_by_field.items():
        constraints[f"{name}.builder_version"] = assets.builder_version
        if assets.builder_version and not assets.builder:
            needed = f"{name}.builder too, because this is the version of the builder's package"
            yield Fault(f"{name}.builder_version", repr(assets.builder_version), needed)
    for field, constraint in constraints.items():
        try:
            constraint_of(constraint)
        except BadConstraint:
            yield Fault(field, repr(constraint), CONSTRAINTS)


def dataset_faults(dataset: DatasetManifest) -> Iterator[Fault]:
    """Yield the faults of a dataset's origin, reader, element types and samples."""
    origins = {"samples": dataset.samples, "source": dataset.source, "synthetic": dataset.synthetic}
    named = [name for name, origin in origins.items() if origin]
    if len(named) != 1:
        field = named[1] if named else "samples"
        yield Fault(field, " and ".join(named) or "nothing to read", f"one of {', '.join(origins)}")
    if dataset.source is not None:
        # The reader may be of a package that only the agents have, so only near misses are faults.
        reader, readers = dataset.source.reader, reader_names()
        spelling = reader.lower().replace("-", "_")
        if reader not in readers and close_names(spelling, readers, most=1, cutoff=0.92):
            yield Fault("source.reader", repr(reader), ", ".join(readers))
    if dataset.synthetic is not None:
        inputs = dataset.synthetic.inputs.items()
        element_types = {"synthetic": dataset.synthetic.element_type}
        element_types |= {f"synthetic.inputs.{name}": spec.element_type for name, spec in inputs}
        yield from (
            Fault(f"{field}.element_type", repr(element_type), ", ".join(ELEMENT_TYPES))
            for field, element_type in element_types.items()
            if element_type not in ELEMENT_TYPES
        )
    for number, sample in enumerate(dataset.samples):
        yield from sample_faults(f"samples.{number}", sample)


def sample_faults(field: str, sample: Sample) -> Iterator[Fault]:
    """Yield the faults of a sample, which stands in `field` of the manifest.

    It has several origins or none, no checksum, or broken base64.
    """
    named = [name for name in ("path", "inputs", "content") if getattr(sample, name)]
    if len(named) != 1:
        named_text = {0: "neither", 2: "both"}.get(len(named), ", ".join(named))
        yield Fault(field, named_text, "a path, or else inputs with a path each, or content")
        return
    if sample.path and not sample.sha256:
        yield Fault(f"{field}.sha256", "nothing", "the file's sha256")
    if sample.content:
        try:
            is_base64 = bool(b64decode(sample.content, validate=True))
        except ValueError:
            is_base64 = False
        if not is_base64:
            yield Fault(f"{field}.content", f"{sample.content[:20]!r}…", "base64")


def _misspelt(field: str, name: str, usual: Sequence[str]) -> Iterator[Fault]:
    """Yield a name that is nearly a usual one. Others are allowed, as fpga and armv7l."""
    if name.lower() not in usual and close_names(name.lower(), usual, most=1, cutoff=0.7):
        yield Fault(field, repr(name), ", ".join(usual))
