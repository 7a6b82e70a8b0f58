"""What a manifest that parses may still have wrong: steps, code beside steps, constraints. Pure."""

from base64 import b64decode
from collections.abc import Iterator

from mlscope.manifests.constraints import CONSTRAINTS, constraint_of
from mlscope.manifests.errors import BadConstraint, Fault
from mlscope.manifests.variants import frameworks_of
from mlscope.manifests.verifying import unverifiable_in
from schemas.manifest import DatasetManifest, Manifest, ModelManifest
from schemas.operators import step_faults

_CHECKSUMS = "sha256:…, md5:…, a hub's commit in the address, or `unverifiable: WHY` beside it"


def faults_in(manifest: Manifest) -> Iterator[Fault]:
    """Yield everything that would have each evaluation with a manifest refused."""
    if isinstance(manifest, DatasetManifest):
        yield from _in_dataset(manifest)
    if not isinstance(manifest, ModelManifest):
        return
    for fault in step_faults(manifest):
        yield Fault(fault.path, fault.found, fault.allowed)
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
    if len(given) > 1:
        yield Fault(given[1], f"{' and '.join(given)}", f"one of {', '.join(kinds)}")
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


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
