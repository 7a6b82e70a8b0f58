"""One model of the catalog, and the manifest that describes it. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

Value = Any


@dataclass(frozen=True, slots=True)
class Picture:
    """How a picture becomes a model's input. Mean and deviation are for pixels from 0 to 1."""

    channels: int
    height: int
    width: int
    #: the shorter side before the crop; 0 stretches to the size, uncropped
    resize: int
    mean: Sequence[float]
    deviation: Sequence[float]
    method: str = "bilinear"
    layout: str = "NCHW"
    #: decimal places of mean and deviation, in the pixels' own units
    places: int = 4

    def shape(self) -> list[int]:
        """Return the input's shape, batch free."""
        if self.layout == "NHWC":
            return [-1, self.height, self.width, self.channels]
        return [-1, self.channels, self.height, self.width]

    def steps(self) -> list[dict[str, Value]]:
        """Return the steps from a file's bytes to the tensor."""
        size = [self.channels, self.height, self.width]
        steps: list[dict[str, Value]] = [
            {"decode": None, "color_mode": "RGB" if self.channels == 3 else "L"}
        ]
        if self.resize:
            side = [self.channels, self.resize, self.resize]
            steps.append(
                {"resize": None, "dimensions": side, "method": self.method}
                | {"keep_aspect_ratio": True}
            )
            steps.append({"crop": None, "dimensions": size, "method": "center"})
        else:
            steps.append({"resize": None, "dimensions": size, "method": self.method})
        steps.append(
            {
                "normalize": None,
                "mean": [round(share * 255, self.places) for share in self.mean],
                "scale": [round(share * 255, self.places) for share in self.deviation],
            }
        )
        steps.append({"cast": None, "element_type": "float32", "data_layout": self.layout})
        return steps


IMAGENET_CLASSES = 1000
IMAGENET_LABELS = "file:efficientnet_lite0/labels.txt"


@dataclass(frozen=True, slots=True)
class LabelFiles:
    """The label files that a source's entries name, one a number of classes.

    ImageNet's is shipped beside EfficientNet-Lite0; `texts` are the others, to be written, by
    file name.
    """

    source: str
    imagenet_sha256: str
    texts: dict[str, str] = field(default_factory=dict)

    def of(self, categories: Sequence[str]) -> dict[str, str]:
        """Return the address of the file with these categories, to its checksum."""
        if len(categories) == IMAGENET_CLASSES:
            return self.imagenet()
        text = "".join(f"{category}\n" for category in categories)
        assert text.splitlines() == list(categories), "a name that is no line"
        name = f"labels_{len(categories)}.txt"
        assert self.texts.setdefault(name, text) == text, f"two lists of {len(categories)} classes"
        return {f"file:{self.source}/{name}": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}

    def imagenet(self) -> dict[str, str]:
        """Return the address of ImageNet's 1,000 classes, to its checksum."""
        return {IMAGENET_LABELS: f"sha256:{self.imagenet_sha256}"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A model as its package describes it."""

    name: str
    task: str
    description: str
    framework: str
    framework_version: str
    inputs: Sequence[Mapping[str, Value]]
    outputs: Sequence[Mapping[str, Value]]
    model: Mapping[str, Value]
    attributes: Mapping[str, Value]
    version: str = "1.0.0"
    license: str = ""
    references: Sequence[str] = ()
    options: Mapping[str, Value] = field(default_factory=dict)
    dataset: str = ""
    #: further variants of the model, as a manifest writes them
    frameworks: Sequence[Mapping[str, Value]] = ()

    def manifest(self) -> dict[str, Value]:
        """Return the manifest as a map, empty fields left out."""
        has_weights = self.model.get("weights_path") or self.model.get("graph_path")
        manifest: dict[str, Value] = {
            "kind": "model",
            "name": self.name,
            "version": self.version,
            "task": self.task,
            "description": self.description,
            "framework": {"name": self.framework, "version": self.framework_version},
            "frameworks": [dict(entry) for entry in self.frameworks],
            "license": self.license,
            "references": list(self.references),
            "inputs": [dict(entry) for entry in self.inputs],
            "outputs": [dict(entry) for entry in self.outputs],
            # Without weights a model is built with random ones.
            "model": {**self.model} if has_weights else {**self.model, "weights": "random"},
            "options": dict(self.options),
            "dataset": self.dataset,
            "attributes": dict(self.attributes),
        }
        manifest["attributes"] = _non_empty(manifest["attributes"])
        return _non_empty(manifest)


def _non_empty(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value not in ("", [], {}, None)}


class _Spelt(yaml.SafeDumper):
    """Writes what occurs twice twice: people read manifests."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Say that nothing is named and referred to."""
        return True


def text_of(entry: Entry, package: str) -> str:
    """Return an entry's manifest as YAML, with where it comes from in the first line."""
    body = yaml.dump(
        entry.manifest(),
        Dumper=_Spelt,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None,
    )
    return f"# Generated by tools.catalog from {package}'s own metadata: do not edit.\n{body}"
