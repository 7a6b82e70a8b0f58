"""Manifests: models, frameworks, datasets, scenarios and machines as data, as in the catalog.

The papers' listings parse unchanged: there a step is a map whose first key, without a value, is the
operator and whose other keys are its parameters.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from schemas.message import Fact, Message
from schemas.values.framework_names import FrameworkName, framework_of
from schemas.values.json_values import JsonObject
from schemas.values.numbers import Integer, Number


class Step(Message):
    """One operator of a pipeline and its parameters."""

    operator: str
    parameters: JsonObject = Field(default_factory=dict)


def step_of(value: object) -> object:
    """Return a step of a listing as operator and parameters.

    Accepts `{decode: null, color_mode: RGB}`, `{decode: {color_mode: RGB}}` and `decode`. Raises
    ValueError for anything else.
    """
    if isinstance(value, str):
        return {"operator": value}
    if not isinstance(value, Mapping) or not value or "operator" in value:
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
    """One input or output of a model: modality, tensor, and the steps before or after the model.

    `shape` has the batch dimension first; -1 is any size. Without an `element_type` the model's own
    counts, or float32 if the model has none. `range` bounds an input's integers: from its first
    number up to below its second, as `[0, 50257]` for the ids of a vocabulary.
    """

    type: str
    layer_name: str = ""
    element_type: str = "float32"
    shape: tuple[Integer, ...] = ()
    steps: tuple[StepField, ...] = ()
    description: str = ""
    #: whether NaN and infinite values are valid outputs; otherwise a query with one fails
    allow_nan: bool = False
    #: the least integer of an input, and the first above its largest; a sample outside fails
    range: tuple[Integer, Integer] | None = None

    @property
    def says_element_type(self) -> bool:
        """Return whether the manifest has an element type."""
        return "element_type" in self.model_fields_set

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a default element type and no range: a copy and its digest have none either."""
        fields: dict[str, Any] = write(self)
        if not self.says_element_type:
            fields.pop("element_type", None)
        if self.range is None:
            fields.pop("range", None)
        return fields


class FrameworkNeed(Message):
    """A framework by name and version constraint: PEP 440, or as in the papers `>=1.12.0 <2.0`."""

    name: FrameworkName
    version: str = ""


FrameworkField = Annotated[
    FrameworkNeed | None,
    BeforeValidator(framework_of, json_schema_input_type=str | FrameworkNeed | None),
]


class Assets(Message):
    """Origin of a model: files, each with a checksum (`sha256:…` or `md5:…`), or a builder.

    Addresses are relative to `base_url`. An `archive` is one file that contains the others, which
    then need no checksum.
    """

    base_url: str = ""
    graph_path: str = ""
    weights_path: str = ""
    checksum: str = Field(default="", validation_alias=AliasChoices("checksum", "graph_checksum"))
    weights_checksum: str = ""
    archive: str = ""
    archive_checksum: str = ""
    #: format of the graph, as `onnx`, `torchscript`, `saved_model`; '' follows its ending
    format: str = ""
    #: import path of a function that builds the model, as `torchvision.models.resnet50`
    builder: str = ""
    #: versions of the builder's package that have it, as `>=1.0.12`; '' is any
    builder_version: str = ""
    #: arguments of the builder
    arguments: JsonObject = Field(default_factory=dict)
    #: `random`: the builder's initial weights from `seed`; results are marked
    weights: Literal["", "random"] = ""
    #: why files on the web have no checksum; used only if the request allows it
    unverifiable: str = ""
    seed: Integer = Field(default=0, ge=0)
    #: further files (labels, vocabularies): path to checksum
    assets: dict[str, str] = Field(default_factory=dict)
    #: address of a file whose name, as steps and code use it, is not its address
    addresses: dict[str, str] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an empty `builder_version`: older manifests' digests are without it."""
        fields: dict[str, Any] = write(self)
        if not self.builder_version:
            fields.pop("builder_version", None)
        return fields


class Variant(Message):
    """The same model on one more framework, with its own assets.

    `layer_names` maps the manifest's names of inputs and outputs to this framework's names.
    """

    name: FrameworkName
    version: str = ""
    model: Assets = Assets()
    layer_names: dict[str, str] = Field(default_factory=dict)
    #: data layout of an input or output if it differs, by the manifest's name
    layouts: dict[str, Literal["NCHW", "NHWC"]] = Field(default_factory=dict)
    #: predictor options, unless the request has others
    options: JsonObject = Field(default_factory=dict)


PLACEHOLDERS = ("...", "[[code]]")
"""Placeholders of omitted parts in the papers' listings: they parse, but using them is refused."""


def code_of(value: object) -> object:
    """Return the listings' `[[code]]`, which YAML parses as lists, as that placeholder."""
    return "[[code]]" if value == [["code"]] else value


Code = Annotated[str, BeforeValidator(code_of)]
"""Inline Python: `def fun(env, data)` and its imports."""

CODE_FIELDS = (
    "before_preprocess",
    "preprocess",
    "after_preprocess",
    "before_postprocess",
    "postprocess",
    "after_postprocess",
)
"""A model's fields with inline Python: those before the model, then those after it."""


class ModelManifest(Message):
    """A model as data.

    `framework` and `model` describe its first variant, `frameworks` all further ones. One side of
    the model has either steps or inline code, not both.
    """

    kind: Literal["model"] = "model"
    name: str
    version: str
    task: str = ""
    description: str = ""
    framework: Annotated[
        FrameworkNeed,
        BeforeValidator(framework_of, json_schema_input_type=str | FrameworkNeed),
    ]
    frameworks: tuple[Variant, ...] = ()
    license: str = ""
    references: tuple[str, ...] = ()
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    before_preprocess: Code = ""
    preprocess: Code = ""
    after_preprocess: Code = ""
    before_postprocess: Code = ""
    postprocess: Code = ""
    after_postprocess: Code = ""
    model: Assets = Assets()
    #: predictor options of the first variant, unless the request has others
    options: JsonObject = Field(default_factory=dict)
    #: element type of the stored weights, as `float32`; the predictor reports the one that runs
    precision: str = ""
    #: default dataset
    dataset: str = ""
    attributes: JsonObject = Field(default_factory=dict)
    hidden: bool = False

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, value: Any) -> Any:
        """Use the first of `frameworks` as `framework` if the manifest has only the list."""
        if not isinstance(value, Mapping) or value.get("framework") or not value.get("frameworks"):
            return value
        first, *further = value["frameworks"]
        if not isinstance(first, Mapping):
            return value
        own = {name: first[name] for name in ("model", "options") if name in first}
        need = {"name": first.get("name"), "version": first.get("version", "")}
        return {**value, **own, "framework": need, "frameworks": further}


class FrameworkManifest(Message):
    """A build of a framework, and its container images by architecture and device."""

    kind: Literal["framework"] = "framework"
    name: FrameworkName
    version: str
    description: str = ""
    containers: dict[str, dict[str, str]] = Field(default_factory=dict)
    #: description of each predictor option
    options: dict[str, str] = Field(default_factory=dict)
    #: default predictor options of every model on this build
    defaults: JsonObject = Field(default_factory=dict)


class SampleFile(Message):
    """A file of a sample; `path` is relative to the manifest's folder."""

    path: str
    sha256: str


class Sample(Message):
    """One sample of a dataset with its labels: a file, or one file for each input of the model.

    `path` is relative to the manifest's folder, or an address (`pypi://…`); `inputs` has a file by
    the input's layer name. `content` may have a small file itself, as base64, and `name` the name
    that this file had.
    """

    path: str = ""
    sha256: str = ""
    inputs: dict[str, SampleFile] = Field(default_factory=dict)
    content: str = ""
    #: all correct class names
    labels: tuple[str, ...] = ()
    #: all correct classes, counted from 0 in the order of the model's outputs
    classes: tuple[Annotated[Integer, Field(ge=0)], ...] = ()
    reason: str = ""
    #: the sample's own name in results; '' is the name of its file
    name: str = ""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an empty name: a manifest without one keeps its digest."""
        return {field: value for field, value in write(self).items() if value or field != "name"}


class SyntheticTensor(Message):
    """Random numbers for one input, without the batch dimension.

    An empty `shape` means the model's shape and element type. `uniform` numbers go from `low` to
    `high`, by default 0 to 1, and 0 to 64 for integers.
    """

    shape: tuple[Integer, ...] = ()
    element_type: str = "float32"
    distribution: Literal["normal", "uniform", "zeros"] = "normal"
    low: Number = 0.0
    high: Number | None = None


class Synthetic(SyntheticTensor):
    """Samples generated from a seed: `samples` tensors for each input of the model.

    `inputs` describes single inputs by layer name; the fields here describe all others.
    """

    seed: Integer = 0
    samples: Integer = Field(default=64, ge=1, le=1_000_000)
    inputs: dict[str, SyntheticTensor] = Field(default_factory=dict)


class Source(Message):
    """A dataset at an address, and how to read it.

    `reader` is a reader's name, as `image_folder`, `csv`, `npy`, `tfrecord`, `recordio`, `urls`,
    `imagenet`, `coco`, `cifar10`, `mnist`, `squad`, `paired_folders`; `options` are that reader's.
    A folder on the agent's host (`file:`) is read in place; any other folder comes as an `archive`.
    """

    address: str
    reader: str
    checksum: str = ""
    #: whether the address is an archive; `path` is the dataset's path in it, '' all of it
    archive: bool = False
    path: str = ""
    options: JsonObject = Field(default_factory=dict)
    #: use only this many samples, from the first; 0 is all
    most_samples: Integer = Field(default=0, ge=0)
    #: number of samples; 0 is unknown, which rules out remote load
    samples: Integer = Field(default=0, ge=0)


class DatasetManifest(Message):
    """Samples of a load: files, a source, or synthetic tensors."""

    kind: Literal["dataset"] = "dataset"
    name: str
    version: str = "1.0.0"
    description: str = ""
    license: str = ""
    modality: str = "image"
    samples: tuple[Sample, ...] = ()
    source: Source | None = None
    synthetic: Synthetic | None = None


class ScenarioManifest(Message):
    """Default parameters of a scenario, and its description."""

    kind: Literal["scenario"] = "scenario"
    name: str
    version: str = "1.0.0"
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)


class HardwareManifest(Message):
    """Hardware of a machine as DLSpec describes it: required parts, and setup outside mlscope."""

    kind: Literal["hardware"] = "hardware"
    name: str
    version: str = "1.0.0"
    description: str = ""
    architecture: str = ""
    cpu: JsonObject = Field(default_factory=dict)
    accelerators: tuple[JsonObject, ...] = ()
    interconnect: str = ""
    memory_bytes: Integer = Field(default=0, ge=0)
    #: instructions for people, never executed: as `turbo off`
    setup: str = ""


class SoftwareManifest(Message):
    """Software of a machine as DLSpec describes it: image, environment and packages."""

    kind: Literal["software"] = "software"
    name: str
    version: str = "1.0.0"
    description: str = ""
    container: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)


Manifest = Annotated[
    ModelManifest
    | FrameworkManifest
    | DatasetManifest
    | ScenarioManifest
    | HardwareManifest
    | SoftwareManifest,
    Field(discriminator="kind"),
]


class ManifestPublished(Fact):
    """A manifest was added to the catalog. Published by the registry."""

    entity = "manifest"
    happened = "published"
    manifest: Manifest
    digest: str


class ManifestWithdrawn(Fact):
    """A manifest was removed from the catalog; current runs keep it. Published by the registry."""

    entity = "manifest"
    happened = "withdrawn"
    kind: str
    name: str
    version: str
