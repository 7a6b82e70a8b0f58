"""What a model's manifest may have wrong about its files: addresses, checksums, labels. Pure."""

from collections.abc import Iterator

from mlscope.assets.addresses import FileSource, address_of, parse
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.errors import BadAddress, BadChecksum
from mlscope.manifests.errors import Fault
from schemas.manifest import Assets, ModelManifest, Step

_LEFT_OUT = "..."
"""The papers' listings leave parts of addresses out; such a text is refused where it is used."""
_CHECKSUM = "sha256:… or md5:… and its digits"
_ADDRESSES = (
    "a path, https://…, artifact://NAME, pypi://PACKAGE==VERSION/PATH or hf://REPO@REV/PATH"
)
_BY_FILE = ("litert", "onnxruntime", "openvino", "pytorch", "tensorflow", "tensorrt")
"""Frameworks whose models are a file or a builder; others may know a model by its name alone."""
_NAMING = ("labels", "labels_url", "vocabulary")
"""Parameters of steps that name a file of the model."""


def file_faults(model: ModelManifest) -> Iterator[Fault]:
    """Yield each address nobody can read, checksum that is none, and file that is not there."""
    yield from _in_assets("model", model.framework.name, model.model, model)
    for number, each in enumerate(model.frameworks):
        yield from _in_assets(f"frameworks.{number}.model", each.name, each.model, model)


def _in_assets(place: str, framework: str, assets: Assets, model: ModelManifest) -> Iterator[Fault]:
    for field in ("graph_path", "weights_path", "archive"):
        yield from _address(f"{place}.{field}", assets, getattr(assets, field))
    for name in assets.assets:
        yield from _address(f"{place}.assets.{name}", assets, name)
    for field in ("checksum", "weights_checksum", "archive_checksum"):
        yield from _checksum(f"{place}.{field}", getattr(assets, field))
    for name, checksum in assets.assets.items():
        yield from _checksum(f"{place}.assets.{name}", checksum)
    if framework.lower() in _BY_FILE and not (
        assets.graph_path or assets.builder or assets.archive
    ):
        found = "neither graph_path nor builder nor archive"
        yield Fault(place, found, "where the model is: one of them")
    if not assets.archive:
        yield from _unnamed(place, assets, model)


def _address(field: str, assets: Assets, name: str) -> Iterator[Fault]:
    address = address_of(assets, name)
    if not name or _LEFT_OUT in address:
        return
    try:
        source = parse(address)
    except BadAddress as error:
        yield Fault(field, repr(address), f"{_ADDRESSES} ({error})")
        return
    if isinstance(source, FileSource) and ".." in source.path.split("/"):
        yield Fault(field, repr(address), "a path below the manifest's folder")


def _checksum(field: str, text: str) -> Iterator[Fault]:
    if _LEFT_OUT in text:
        return
    try:
        parse_checksum(text)
    except BadChecksum:
        yield Fault(field, repr(text), _CHECKSUM)


def _unnamed(place: str, assets: Assets, model: ModelManifest) -> Iterator[Fault]:
    """Yield each step that names a file which this variant does not bring."""
    for path, step in _steps(model):
        for parameter in _NAMING:
            name = step.parameters.get(parameter)
            if isinstance(name, str) and _LEFT_OUT not in name and name not in assets.assets:
                known = ", ".join(assets.assets) or "none"
                allowed = f"a file listed with its checksum under {place}.assets (there: {known})"
                yield Fault(f"{path}.{step.operator}.{parameter}", repr(name), allowed)


def _steps(model: ModelManifest) -> Iterator[tuple[str, Step]]:
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        for number, port in enumerate(ports):
            for place, step in enumerate(port.steps):
                yield f"{side}.{number}.steps.{place}", step
