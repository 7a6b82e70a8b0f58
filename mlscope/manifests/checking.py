"""What a manifest that parses may still have wrong. Pure."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from packaging.version import InvalidVersion, Version

from mlscope.datasets.opening import reader_names
from mlscope.manifests.constraints import CONSTRAINTS, constraint_of
from mlscope.manifests.errors import BadConstraint, Fault
from mlscope.manifests.files import file_faults
from mlscope.manifests.ports import ELEMENT_TYPES, code_faults, port_faults
from mlscope.manifests.variants import frameworks_of
from mlscope.manifests.verifying import unverifiable_in
from schemas.manifest import DatasetManifest, FrameworkManifest, Manifest, ModelManifest, Synthetic
from schemas.operators import step_faults

_LONGEST_NAME = 128
_ARCHITECTURES = ("amd64", "x86_64", "arm64", "aarch64", "ppc64le", "s390x", "riscv64")
_DEVICES = ("cpu", "gpu")
_CHECKSUMS = "sha256:…, md5:…, a hub's commit in the address, or `unverifiable: WHY` beside it"


def faults_in(manifest: Manifest) -> Iterator[Fault]:
    """Yield everything that would have each evaluation with a manifest refused."""
    yield from _in_any(manifest)
    if isinstance(manifest, DatasetManifest):
        yield from _in_dataset(manifest)
    elif isinstance(manifest, FrameworkManifest):
        yield from _in_framework(manifest)
    elif isinstance(manifest, ModelManifest):
        yield from _in_model(manifest)


def _in_any(manifest: Manifest) -> Iterator[Fault]:
    try:
        Version(manifest.version)
    except InvalidVersion:
        yield Fault("version", repr(manifest.version), "a version, as 1.0.0")
    if not manifest.name.strip() or len(manifest.name) > _LONGEST_NAME:
        yield Fault("name", repr(manifest.name), f"1 to {_LONGEST_NAME} characters")


def _in_model(manifest: ModelManifest) -> Iterator[Fault]:
    for fault in step_faults(manifest):
        yield Fault(fault.path, fault.found, fault.allowed)
    yield from port_faults(manifest)
    yield from code_faults(manifest)
    yield from file_faults(manifest)
    for number, need in enumerate(frameworks_of(manifest)):
        try:
            constraint_of(need.version)
        except BadConstraint:
            field = "framework" if number == 0 else f"frameworks.{number - 1}"
            yield Fault(f"{field}.version", repr(need.version), CONSTRAINTS)
    yield from _unverifiable(manifest)


def _unverifiable(model: ModelManifest) -> Iterator[Fault]:
    """Yield each file without checksum whose manifest does not even say that it has none."""
    further = ((f"frameworks.{n}.model", each.model) for n, each in enumerate(model.frameworks))
    for place, assets in (("model", model.model), *further):
        if not assets.unverifiable:
            for each in unverifiable_in(assets):
                yield Fault(f"{place}.{each.field}", f"nothing for {each.address}", _CHECKSUMS)


def _in_dataset(dataset: DatasetManifest) -> Iterator[Fault]:
    kinds = {"samples": dataset.samples, "source": dataset.source, "synthetic": dataset.synthetic}
    given = [name for name, value in kinds.items() if value]
    if len(given) != 1:
        found = " and ".join(given) or "nothing to read"
        yield Fault(given[1] if given else "samples", found, f"one of {', '.join(kinds)}")
    if dataset.source is not None:
        yield from _reader(dataset.source.reader)
    if dataset.synthetic is not None:
        yield from _synthetic(dataset.synthetic)
    for number, sample in enumerate(dataset.samples):
        given = [each for each in ("path", "inputs", "content") if getattr(sample, each)]
        if len(given) != 1:
            found = {0: "neither", 2: "both"}.get(len(given), ", ".join(given))
            allowed = "a path, or else inputs with a path each, or content"
            yield Fault(f"samples.{number}", found, allowed)
        elif sample.path and not sample.sha256:
            yield Fault(f"samples.{number}.sha256", "nothing", "the file's sha256")
        elif sample.content and not _is_base64(sample.content):
            yield Fault(f"samples.{number}.content", f"{sample.content[:20]!r}…", "base64")


def _reader(name: str) -> Iterator[Fault]:
    """Yield a reader's name that is misspelt; another may be known where the dataset is read."""
    known = reader_names()
    spelt = name.lower().replace("-", "_")
    if name not in known and get_close_matches(spelt, known, n=1, cutoff=0.92):
        yield Fault("source.reader", repr(name), ", ".join(known))


def _synthetic(said: Synthetic) -> Iterator[Fault]:
    kinds = {"synthetic": said.element_type}
    kinds |= {f"synthetic.inputs.{name}": each.element_type for name, each in said.inputs.items()}
    for place, kind in kinds.items():
        if kind not in ELEMENT_TYPES:
            yield Fault(f"{place}.element_type", repr(kind), ", ".join(ELEMENT_TYPES))


def _in_framework(framework: FrameworkManifest) -> Iterator[Fault]:
    for architecture, images in framework.containers.items():
        place = f"containers.{architecture}"
        yield from _misspelt(place, architecture, _ARCHITECTURES)
        for device in images:
            yield from _misspelt(f"{place}.{device}", device, _DEVICES)


def _misspelt(place: str, name: str, known: Sequence[str]) -> Iterator[Fault]:
    """Yield a name that is only nearly a known one; there are others, as fpga and armv7l."""
    if name.lower() not in known and get_close_matches(name.lower(), known, n=1, cutoff=0.7):
        yield Fault(place, repr(name), ", ".join(known))


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
