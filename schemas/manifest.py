"""Models, frameworks, datasets and scenarios as data; what the catalog holds.

The paper's listings parse as they stand: a step is a map whose first key, with no value,
names the operator and whose siblings are its parameters.
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
from schemas.numbers import Number, Whole


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

    `shape` counts the batch dimension first; -1 is any size. An `element_type` that is not said is
    the model's own, float32 where that knows none; it is not written either.
    """

    type: str
    layer_name: str = ""
    element_type: str = "float32"
    shape: tuple[Whole, ...] = ()
    steps: tuple[StepField, ...] = ()
    description: str = ""
    #: NaN and infinite values are an answer of this output; else a query with one fails
    allow_nan: bool = False

    @property
    def says_element_type(self) -> bool:
        """Say whether the manifest gives an element type, rather than leave it to the model."""
        return "element_type" in self.model_fields_set

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an element type that nobody said: read again, it is still not said."""
        told: dict[str, Any] = write(self)
        if not self.says_element_type:
            told.pop("element_type", None)
        return told


class FrameworkNeed(Message):
    """A framework by name and version constraint: PEP 440, or the papers' `>=1.12.0 <2.0`."""

    name: str
    version: str = ""


class Assets(Message):
    """Where a model comes from: files, each with a checksum (`sha256:…` or `md5:…`), or a builder.

    Addresses are joined to `base_url`. An `archive` is one file that holds the others, which need
    no checksum of their own then.
    """

    base_url: str = ""
    graph_path: str = ""
    weights_path: str = ""
    checksum: str = Field(default="", validation_alias=AliasChoices("checksum", "graph_checksum"))
    weights_checksum: str = ""
    archive: str = ""
    archive_checksum: str = ""
    #: how the graph is written, as `onnx`, `torchscript`, `saved_model`; '' goes by its ending
    format: str = ""
    #: the import path of a function that builds the model, as `torchvision.models.resnet50`
    builder: str = ""
    #: what the builder is called with
    arguments: dict[str, Any] = Field(default_factory=dict)
    #: `random`: the builder's own initial weights from `seed`; the result says so
    weights: Literal["", "random"] = ""
    #: why files on the web have no checksum here; used only where a request takes them so
    unverifiable: str = ""
    seed: Whole = Field(default=0, ge=0)
    #: further files by path, to checksum: labels, vocabularies
    assets: dict[str, str] = Field(default_factory=dict)
    #: where the file of a name is, if not where the name says: steps and code keep the name
    addresses: dict[str, str] = Field(default_factory=dict)


class Variant(Message):
    """The same model on one more framework, with assets of its own.

    `layer_names` gives this framework's names of inputs and outputs, by the manifest's names.
    """

    name: str
    version: str = ""
    model: Assets = Assets()
    layer_names: dict[str, str] = Field(default_factory=dict)
    #: the data layout of an input or output where it differs, by the manifest's name
    layouts: dict[str, Literal["NCHW", "NHWC"]] = Field(default_factory=dict)
    #: predictor options, used where a request says nothing else
    options: dict[str, Any] = Field(default_factory=dict)


PLACEHOLDERS = ("...", "[[code]]")
"""What the papers' listings leave out: parses, and is refused when it would be used."""


def code_of(value: object) -> object:
    """Turn the listings' `[[code]]`, which YAML reads as lists, into that placeholder."""
    return "[[code]]" if value == [["code"]] else value


Code = Annotated[str, BeforeValidator(code_of)]
"""Inline Python: `def fun(env, data)` and what it needs."""

CODE_FIELDS = (
    *("before_preprocess", "preprocess", "after_preprocess"),
    *("before_postprocess", "postprocess", "after_postprocess"),
)
"""A model's fields with inline Python: those before the model, then those behind it."""


class ModelManifest(Message):
    """A model described, not coded.

    `framework` and `model` describe its first variant, `frameworks` all further ones. Steps and
    inline code exclude each other on the same side of the model (`schemas.operators`).
    """

    kind: Literal["model"] = "model"
    name: str
    version: str
    task: str = ""
    description: str = ""
    framework: FrameworkNeed
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
    #: predictor options of the first variant, used where a request says nothing else
    options: dict[str, Any] = Field(default_factory=dict)
    #: what the weights are stored in, as `float32`; what runs is the predictor's to say
    precision: str = ""
    #: the dataset used when a request names none
    dataset: str = ""
    attributes: dict[str, Any] = Field(default_factory=dict)
    hidden: bool = False

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, value: Any) -> Any:
        """Take the first of `frameworks` for `framework`, where only the list is given."""
        if not isinstance(value, Mapping) or value.get("framework") or not value.get("frameworks"):
            return value
        first, *rest = value["frameworks"]
        if not isinstance(first, Mapping):
            return value
        own = {name: first[name] for name in ("model", "options") if name in first}
        need = {"name": first.get("name"), "version": first.get("version", "")}
        return {**value, **own, "framework": need, "frameworks": rest}


class FrameworkManifest(Message):
    """A framework build and the containers that carry it, by architecture and device."""

    kind: Literal["framework"] = "framework"
    name: str
    version: str
    description: str = ""
    containers: dict[str, dict[str, str]] = Field(default_factory=dict)
    #: what a predictor may be told, by option, in prose
    options: dict[str, str] = Field(default_factory=dict)
    #: predictor options of every model on this build, where neither model nor request says more
    defaults: dict[str, Any] = Field(default_factory=dict)


class SampleFile(Message):
    """One file; `path` is relative to the manifest's folder."""

    path: str
    sha256: str


class Sample(Message):
    """One labelled sample of a dataset: a file, or for a model of several inputs a file each.

    `path` is relative to the manifest's folder, or an address (`pypi://…`); `inputs` goes by the
    inputs' layer names. A small file may come in `content` itself, as base64.
    """

    path: str = ""
    sha256: str = ""
    inputs: dict[str, SampleFile] = Field(default_factory=dict)
    content: str = ""
    #: every class name that is right
    labels: tuple[str, ...] = ()
    #: every class that is right, counted from 0 in the order of the model's outputs
    classes: tuple[Annotated[Whole, Field(ge=0)], ...] = ()
    reason: str = ""


class SyntheticTensor(Message):
    """Numbers of one input, without batch.

    An empty `shape` means the model's shape and element type. Uniform runs from `low` up to
    `high`, by default 0 to 1, and 0 to 64 for whole numbers.
    """

    shape: tuple[Whole, ...] = ()
    element_type: str = "float32"
    distribution: Literal["normal", "uniform", "zeros"] = "normal"
    low: Number = 0.0
    high: Number | None = None


class Synthetic(SyntheticTensor):
    """Samples made from a seed: `samples` tensors for each input of the model.

    `inputs` says what an input's are like, by its layer name; the others are as this one says.
    """

    seed: Whole = 0
    samples: Whole = Field(default=64, ge=1, le=1_000_000)
    inputs: dict[str, SyntheticTensor] = Field(default_factory=dict)


class Source(Message):
    """Samples somebody holds already, or that an address leads to, and how to read them.

    `reader` is a reader's name, as `image_folder`, `csv`, `npy`, `tfrecord`, `recordio`, `urls`,
    `imagenet`, `coco`, `cifar10`, `mnist`, `squad`, `paired_folders`; `options` are that reader's.
    A folder of the agent's host (`file:`) is read in place; elsewhere a folder is an `archive`.
    """

    address: str
    reader: str
    checksum: str = ""
    #: the address leads to an archive, and `path` to the dataset in it, '' to all of it
    archive: bool = False
    path: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    #: the first so many samples; 0 is all
    most_samples: Whole = Field(default=0, ge=0)
    #: how many there are; 0 is not known, and then no load can be issued from afar
    samples: Whole = Field(default=0, ge=0)


class DatasetManifest(Message):
    """What samples a load may name by index: files, a source, or synthetic tensors."""

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
    """A scenario's defaults and its meaning in prose."""

    kind: Literal["scenario"] = "scenario"
    name: str
    version: str = "1.0.0"
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class HardwareManifest(Message):
    """A machine as DLSpec describes it: what it must have, and how it is set up outside mlscope."""

    kind: Literal["hardware"] = "hardware"
    name: str
    version: str = "1.0.0"
    description: str = ""
    architecture: str = ""
    cpu: dict[str, Any] = Field(default_factory=dict)
    accelerators: tuple[dict[str, Any], ...] = ()
    interconnect: str = ""
    memory_bytes: Whole = Field(default=0, ge=0)
    #: said to people, never run: as `turbo off`
    setup: str = ""


class SoftwareManifest(Message):
    """The software of a machine as DLSpec describes it: image, environment and packages."""

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
