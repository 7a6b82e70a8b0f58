"""Names in manifests that no request, agent or dataset can ever match. Pure."""

from collections.abc import Collection, Iterator

from mlscope.manifests.errors import Fault
from mlscope.manifests.spelling import close_names
from mlscope.manifests.variants import frameworks_of
from schemas.manifest import FrameworkManifest, Manifest, ModelManifest
from schemas.values.framework_names import FRAMEWORKS
from schemas.values.identity import PLAIN_NAMES, is_plain

PORT_TYPES = (
    "image",
    "audio",
    "text",
    "tensor",
    "raw",
    "video",
    "classification",
    "probability",
    "feature",
    "features",
    "boundingbox",
    "detection_boxes",
    "detection_scores",
    "detection_classes",
    "detection_labels",
    "semantic_segmentation",
    "semanticsegment",
    "instance_segmentation",
    "instancesegment",
)
"""Usual types of inputs and outputs; others are allowed, except near misses of these."""

LONGEST_NAME = 128
_MOST_ENTRIES = 1000
"""Of a model's frameworks, inputs or outputs: the spelling of each is checked."""
_SPOKEN_NAMES = "a name without spaces and colons, because requests write NAME:VERSION"
_FRAMEWORK_SIMILARITY = 0.85
"""Similarity (difflib) from which a name is a misspelt framework: onnxruntime-gpu is not."""
_TYPE_SIMILARITY = 0.8


def naming_faults(
    manifest: Manifest, frameworks: Collection[str] = FRAMEWORKS, *, is_published: bool = True
) -> Iterator[Fault]:
    """Yield a manifest's faulty name or version, frameworks without or with a misspelt name, types.

    `frameworks` are the known names in lower case; a name that resembles none of them is allowed,
    because a package of the agents may bring it. Where the manifest is not `is_published`, but part
    of a request, no other request writes its name: it may have spaces.
    """
    name = manifest.name
    if not name.strip() or len(name) > LONGEST_NAME:
        yield Fault("name", repr(name), f"1 to {LONGEST_NAME} characters")
    elif not is_plain(name):
        yield Fault("name", repr(name), PLAIN_NAMES)
    elif is_published and (":" in name or any(character.isspace() for character in name)):
        advice = "-".join(name.replace(":", " ").split())
        yield Fault("name", repr(name), f"{_SPOKEN_NAMES}; for example {advice}")
    if len(manifest.version) > LONGEST_NAME:
        length = f"{len(manifest.version)} characters"
        yield Fault("version", length, f"up to {LONGEST_NAME} characters")
    if isinstance(manifest, FrameworkManifest) and name.strip():
        yield from _framework_faults("name", name, frameworks)
    if isinstance(manifest, ModelManifest):
        counts = {"frameworks": manifest.frameworks, "inputs": manifest.inputs}
        counts["outputs"] = manifest.outputs
        for field, entries in counts.items():
            if len(entries) > _MOST_ENTRIES:
                yield Fault(field, f"{len(entries)} entries", f"up to {_MOST_ENTRIES}")
                return
        for number, need in enumerate(frameworks_of(manifest)):
            field = "framework.name" if number == 0 else f"frameworks.{number - 1}.name"
            yield from _framework_faults(field, need.name, frameworks)
        for side in ("inputs", "outputs"):
            for number, port in enumerate(getattr(manifest, side)):
                yield from _type_faults(f"{side}.{number}.type", port.type)


def name_in_figures(model: str) -> str:
    """Return what figures of a `model`, as name:version, are called: its name, of any version.

    A version with a local part, as 1.0.0+4f8a, stays with the name: it may have come with a
    request, and so be of another model than the one published.
    """
    name, _, version = model.rpartition(":")
    return model if "+" in version else name or model


def _framework_faults(field: str, name: str, frameworks: Collection[str]) -> Iterator[Fault]:
    """Yield an empty or misspelt `name` of a framework, which stands in `field`."""
    spelt = name.strip().lower()
    if not spelt:
        yield Fault(field, repr(name), f"the name of a framework: {', '.join(sorted(frameworks))}")
    elif spelt not in frameworks and (
        similar := close_names(spelt, frameworks, most=1, cutoff=_FRAMEWORK_SIMILARITY)
    ):
        yield Fault(field, repr(name), f"{similar[0]}? Known are {', '.join(sorted(frameworks))}")


def _type_faults(field: str, name: str) -> Iterator[Fault]:
    """Yield the empty or misspelt type of an input or output, which stands in `field`."""
    spelt = name.strip().lower()
    if not spelt:
        yield Fault(field, repr(name), f"a type, as {', '.join(PORT_TYPES[:5])}")
    elif spelt not in PORT_TYPES and (
        similar := close_names(spelt, PORT_TYPES, most=1, cutoff=_TYPE_SIMILARITY)
    ):
        yield Fault(field, repr(name), f"{similar[0]}?")
