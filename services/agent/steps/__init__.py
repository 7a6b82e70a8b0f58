"""Operators of pipelines: each step of a manifest becomes a function.

Before the model an operator takes and returns one sample: first the bytes of a file, then an image
(height, width, channels) or a `Sound`, finally a tensor without batch dimension. Behind the model
it takes and returns a batch, whose first dimension is the batch: finally an array, or for each
sample a list of features. An operator is a pure function; it raises ValueError for input that it
cannot use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.manifest import Step
from services.agent.errors import UnknownName
from services.agent.steps.forms import NO_FORMS, Forms
from services.agent.steps.operators.answer_span import answer_span
from services.agent.steps.operators.boxes import boxes, masks
from services.agent.steps.operators.cast import cast
from services.agent.steps.operators.constant import constant
from services.agent.steps.operators.crop import crop
from services.agent.steps.operators.ctc import ctc
from services.agent.steps.operators.decode import decode
from services.agent.steps.operators.file_bytes import file_bytes
from services.agent.steps.operators.layout import layout
from services.agent.steps.operators.normalize import normalize
from services.agent.steps.operators.pad import pad
from services.agent.steps.operators.picture import image, raw
from services.agent.steps.operators.regions import regions
from services.agent.steps.operators.resize import resize
from services.agent.steps.operators.segmentation import segmentation
from services.agent.steps.operators.sigmoid import sigmoid
from services.agent.steps.operators.softmax import softmax
from services.agent.steps.operators.sound import audio_decode, resample, waveform
from services.agent.steps.operators.spectrogram import spectrogram
from services.agent.steps.operators.topk import topk
from services.agent.steps.operators.wordpiece import tokenize
from services.agent.steps.parameters import LabelReader, Parameters

Apply = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """A step ready to use; `name` is the name of its spans."""

    name: str
    apply: Apply
    #: names of other outputs of the model that `apply` takes after its own
    extra_outputs: tuple[str, ...] = ()
    #: the manifest's step; None for inline code
    step: Step | None = None
    #: whether the last argument of `apply` is the samples of the batch, None for bad ones
    wants_samples: bool = False
    #: what `linking` can put in the place of `apply`
    forms: Forms = NO_FORMS
    #: what a reader of a run must know of its results
    notes: tuple[str, ...] = ()
    #: the library that does its work on pictures, with its version
    library: str = ""
    #: whether the last argument of `apply` is the sample's place in the batch, to write to
    takes_place: bool = False


OPERATOR_FACTORIES: Mapping[str, Callable[[Parameters], Apply]] = MappingProxyType(
    {
        "decode": decode,
        "resize": resize,
        "crop": crop,
        "pad": pad,
        "normalize": normalize,
        "cast": cast,
        "layout": layout,
        "constant": constant,
        "bytes": file_bytes,
        "audio_decode": audio_decode,
        "resample": resample,
        "waveform": waveform,
        "spectrogram": spectrogram,
        "tokenize": tokenize,
        "softmax": softmax,
        "sigmoid": sigmoid,
        "topk": topk,
        # MLModelScope's manifests end in `argsort: {labels_url: …}`
        "argsort": topk,
        "boxes": boxes,
        "masks": masks,
        "regions": regions,
        "segmentation": segmentation,
        "ctc": ctc,
        "answer_span": answer_span,
        "image": image,
        "raw": raw,
    }
)
"""The function that makes a step's operator, by its name; its docstring has shapes and units."""


def operator_of(step: Step, labels: LabelReader) -> Operator:
    """Return the operator of a step; `labels` reads the label file that a manifest names.

    Raises UnknownName, BadParameter, FileUnusable.
    """
    factory = OPERATOR_FACTORIES.get(step.operator)
    if factory is None:
        raise UnknownName("step", step.operator, OPERATOR_FACTORIES)
    parameters = Parameters(step.operator, step.parameters, labels)
    apply = factory(parameters)
    parameters.refuse_unread()
    return Operator(
        step.operator,
        apply,
        parameters.outputs,
        step,
        parameters.wants_samples,
        parameters.forms,
        parameters.notes,
        parameters.library,
    )
