"""Models, frameworks, datasets and scenarios as data; what the catalog holds.

The paper's listings parse as they stand: a step is a map whose first key, with no value,
names the operator and whose siblings are its parameters.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from schemas.message import Fact, Message


class Step(Message):
    """One operator of a pipeline and its parameters."""

    operator: str
    parameters: dict[str, Any] = Field(default_factory=dict)


def step_of(value: object) -> object:
    """Turn a listing's step into its operator and parameters.

    `{decode: null, color_mode: RGB}`, `{decode: {color_mode: RGB}}` and `decode` all do.
    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        return {"operator": value}
    if not isinstance(value, Mapping) or not value:
        return value
    if "operator" in value:
        return value
    operator, first = next(iter(value.items()))
    siblings = {str(k): v for k, v in value.items() if k != operator}
    if first is None:
        return {"operator": operator, "parameters": siblings}
    if isinstance(first, Mapping) and not siblings:
        return {"operator": operator, "parameters": dict(first)}
    raise ValueError(f"a step's first key names its operator and has no value; found {operator!r}")


StepField = Annotated[Step, BeforeValidator(step_of)]


class Port(Message):
    """One input or output of a model: modality, tensor and the steps before or after it.

    `shape` counts the batch dimension first; -1 is any size.
    """

    type: str
    layer_name: str = ""
    element_type: str = "float32"
    shape: tuple[int, ...] = ()
    steps: tuple[StepField, ...] = ()
    description: str = ""


class FrameworkNeed(Message):
    """A framework by name and version constraint: PEP 440, or the papers' `>=1.12.0 <2.0`."""

    name: str
    version: str = ""


class Assets(Message):
    """Files of a model; every one that is used has a checksum (`sha256:…`)."""

    base_url: str = ""
    graph_path: str = ""
    weights_path: str = ""
    checksum: str = ""
    weights_checksum: str = ""
    #: further files by path, to checksum: labels, vocabularies
    assets: dict[str, str] = Field(default_factory=dict)


class ModelManifest(Message):
    """A model described, not coded."""

    kind: Literal["model"] = "model"
    name: str
    version: str
    task: str = ""
    description: str = ""
    framework: FrameworkNeed
    license: str = ""
    references: tuple[str, ...] = ()
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    model: Assets
    #: the dataset used when a request names none
    dataset: str = ""
    attributes: dict[str, Any] = Field(default_factory=dict)
    hidden: bool = False


class FrameworkManifest(Message):
    """A framework build and the containers that carry it, by architecture and device."""

    kind: Literal["framework"] = "framework"
    name: str
    version: str
    description: str = ""
    containers: dict[str, dict[str, str]] = Field(default_factory=dict)


class Sample(Message):
    """One labelled file of a dataset; `path` is relative to the manifest's folder."""

    path: str
    sha256: str
    labels: tuple[str, ...] = ()
    reason: str = ""


class Synthetic(Message):
    """Samples made from a seed: `samples` tensors of `shape` (without batch)."""

    shape: tuple[int, ...]
    element_type: str = "float32"
    distribution: Literal["normal", "uniform", "zeros"] = "normal"
    seed: int = 0
    samples: int = Field(default=64, ge=1, le=1_000_000)


class DatasetManifest(Message):
    """What samples a load may name by index: files, or synthetic tensors."""

    kind: Literal["dataset"] = "dataset"
    name: str
    version: str = "1.0.0"
    description: str = ""
    license: str = ""
    modality: str = "image"
    samples: tuple[Sample, ...] = ()
    synthetic: Synthetic | None = None


class ScenarioManifest(Message):
    """A scenario's defaults and its meaning in prose."""

    kind: Literal["scenario"] = "scenario"
    name: str
    version: str = "1.0.0"
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


Manifest = Annotated[
    ModelManifest | FrameworkManifest | DatasetManifest | ScenarioManifest,
    Field(discriminator="kind"),
]


class ManifestPublished(Fact):
    """A manifest is in the catalog from here on. Said by the registry."""

    entity = "manifest"
    happened = "published"
    manifest: Manifest
    digest: str


class ManifestWithdrawn(Fact):
    """A manifest left the catalog; runs under way keep theirs. Said by the registry."""

    entity = "manifest"
    happened = "withdrawn"
    kind: str
    name: str
    version: str
