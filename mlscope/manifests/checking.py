"""What a manifest that parses may still have wrong: steps, code beside steps, constraints. Pure."""

from collections.abc import Iterator

from mlscope.manifests.constraints import constraint_of
from mlscope.manifests.errors import BadConstraint, Fault
from mlscope.manifests.variants import frameworks_of
from schemas.manifest import DatasetManifest, Manifest, ModelManifest
from schemas.operators import step_faults

_CONSTRAINTS = ">=1.12.0 <2.0, ==1.15.* or 1.15"


def faults_in(manifest: Manifest) -> Iterator[Fault]:
    """Yield everything that would have each evaluation with a manifest refused."""
    if isinstance(manifest, DatasetManifest):
        for number, sample in enumerate(manifest.samples):
            if bool(sample.path) == bool(sample.inputs):
                found = "both" if sample.path else "neither"
                allowed = "a path, or else inputs with a path each"
                yield Fault(f"samples.{number}", found, allowed)
            elif sample.path and not sample.sha256:
                yield Fault(f"samples.{number}.sha256", "nothing", "the file's sha256")
    if not isinstance(manifest, ModelManifest):
        return
    for fault in step_faults(manifest):
        yield Fault(fault.path, fault.found, fault.allowed)
    for number, need in enumerate(frameworks_of(manifest)):
        try:
            constraint_of(need.version)
        except BadConstraint:
            field = "framework" if number == 0 else f"frameworks.{number - 1}"
            yield Fault(f"{field}.version", repr(need.version), _CONSTRAINTS)
