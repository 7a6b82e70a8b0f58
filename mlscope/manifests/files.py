"""Faults of the files that a model's manifest names: addresses, checksums, labels."""

from collections.abc import Iterator
from itertools import product

from mlscope.assets.addresses import FileSource, address_of, parse
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.errors import BadAddress, BadChecksum
from mlscope.manifests.errors import Fault
from schemas.manifest import Assets, ModelManifest
from schemas.manifest.operators import steps_of

_OMISSION = "..."
"""Stands for an omitted part of an address in the papers' listings; using it is refused later."""
_CHECKSUM = "sha256:… or md5:… and its digits"
_ADDRESSES = (
    "a path, https://…, artifact://NAME, pypi://PACKAGE==VERSION/PATH or hf://REPO@REV/PATH"
)
_LOADS_FILES = ("litert", "onnxruntime", "openvino", "pytorch", "tensorflow", "tensorrt")
"""Frameworks that need a file or a builder; others may load a model by its name alone."""
_FILE_PARAMETERS = ("labels", "labels_url", "vocabulary")
"""Parameters of steps that name a file of the model."""


def file_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield each malformed address or checksum, and each file that is named but not listed."""
    yield from _asset_faults("model", model.framework.name, model.model, model)
    for number, variant in enumerate(model.frameworks):
        field = f"frameworks.{number}.model"
        yield from _asset_faults(field, variant.name, variant.model, model)


def _asset_faults(
    field: str, framework: str, assets: Assets, model: ModelManifest
) -> Iterator[Fault]:
    """Yield the faults of one variant's `assets`, which stand in `field` of the manifest."""
    for name in ("graph_path", "weights_path", "archive"):
        yield from _address_faults(f"{field}.{name}", assets, getattr(assets, name))
    for name in assets.assets:
        yield from _address_faults(f"{field}.assets.{name}", assets, name)
    checksums = ("checksum", "weights_checksum", "archive_checksum")
    named = {name: getattr(assets, name) for name in checksums}
    named |= {f"assets.{name}": checksum for name, checksum in assets.assets.items()}
    for name, checksum in named.items():
        try:
            parse_checksum("" if _OMISSION in checksum else checksum)
        except BadChecksum:
            yield Fault(f"{field}.{name}", repr(checksum), _CHECKSUM)
    has_model = assets.graph_path or assets.builder or assets.archive
    if framework.lower() in _LOADS_FILES and not has_model:
        yield Fault(field, "no file of the model", "a graph_path, a builder or an archive")
    if not assets.archive:
        yield from _unlisted_file_faults(field, assets, model)


def _address_faults(field: str, assets: Assets, name: str) -> Iterator[Fault]:
    address = address_of(assets, name)
    if not name or _OMISSION in address:
        return
    try:
        source = parse(address)
    except BadAddress as error:
        yield Fault(field, repr(address), f"{_ADDRESSES} ({error})")
        return
    if isinstance(source, FileSource) and ".." in source.path.split("/"):
        yield Fault(field, repr(address), "a path below the manifest's folder")


def _unlisted_file_faults(field: str, assets: Assets, model: ModelManifest) -> Iterator[Fault]:
    """Yield each parameter of a step that names a file which the variant's assets do not list."""
    listed = ", ".join(assets.assets) or "none"
    allowed = f"a file listed with its checksum under {field}.assets (there: {listed})"
    for (path, step), parameter in product(steps_of(model), _FILE_PARAMETERS):
        name = step.parameters.get(parameter)
        if isinstance(name, str) and _OMISSION not in name and name not in assets.assets:
            yield Fault(f"{path}.{step.operator}.{parameter}", repr(name), allowed)
