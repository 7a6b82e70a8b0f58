"""Datasets as data: files, a source at an address, or synthetic tensors."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from schemas.manifest.described import DescribedManifest
from schemas.message import Message
from schemas.values.json_values import JsonObject
from schemas.values.numbers import Integer, Number


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


class DatasetManifest(DescribedManifest):
    """Samples of a load: files, a source, or synthetic tensors."""

    kind: Literal["dataset"] = "dataset"
    license: str = ""
    modality: str = "image"
    samples: tuple[Sample, ...] = ()
    source: Source | None = None
    synthetic: Synthetic | None = None
