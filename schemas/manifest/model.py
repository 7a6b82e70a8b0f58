"""Models as data: assets, inputs, outputs, steps and inline code.

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

from schemas.message import Message
from schemas.values.framework_names import FrameworkName, framework_of
from schemas.values.json_values import JsonObject
from schemas.values.numbers import Integer
from schemas.values.texts import MOST_CHARACTERS, ShortText


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

    name: Annotated[FrameworkName, Field(max_length=MOST_CHARACTERS)]
    version: ShortText = ""


FrameworkField = Annotated[
    FrameworkNeed | None,
    BeforeValidator(framework_of, json_schema_input_type=ShortText | FrameworkNeed | None),
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

    name: Annotated[FrameworkName, Field(max_length=MOST_CHARACTERS)]
    version: ShortText = ""
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
