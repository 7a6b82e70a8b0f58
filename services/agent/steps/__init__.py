"""Operators of pipelines, one a file: a step of a manifest becomes a function.

Before the model an operator takes and gives one sample: bytes of a file, then an image
(height, width, channels) or a `Sound`, at last a tensor without batch dimension. Behind the model
it takes and gives a whole batch, first dimension the batch: at last an array, or for each sample
a list of features. An operator is a pure function and raises ValueError when it can't use what
it gets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.manifest import Step
from services.agent.errors import UnknownStep
from services.agent.steps.answer_span import answer_span
from services.agent.steps.boxes import boxes, masks
from services.agent.steps.cast import cast
from services.agent.steps.constant import constant
from services.agent.steps.crop import crop
from services.agent.steps.ctc import ctc
from services.agent.steps.decode import decode
from services.agent.steps.file_bytes import file_bytes
from services.agent.steps.layout import layout
from services.agent.steps.normalize import normalize
from services.agent.steps.pad import pad
from services.agent.steps.parameters import LabelReader, Parameters
from services.agent.steps.picture import image, raw
from services.agent.steps.regions import regions
from services.agent.steps.resize import resize
from services.agent.steps.segmentation import segmentation
from services.agent.steps.sigmoid import sigmoid
from services.agent.steps.softmax import softmax
from services.agent.steps.sound import audio_decode, resample, waveform
from services.agent.steps.spectrogram import spectrogram
from services.agent.steps.topk import topk
from services.agent.steps.wordpiece import tokenize

Apply = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """A step ready to use; `name` is its spans' name."""

    name: str
    apply: Apply
    #: outputs of the model that `apply` takes beside its own
    others: tuple[str, ...] = ()
    #: the manifest's own words; none of inline code
    step: Step | None = None
    #: `apply` takes the samples of the batch at last, None in the places of bad ones
    wants_samples: bool = False


MAKERS: Mapping[str, Callable[[Parameters], Apply]] = MappingProxyType(
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
        # the papers' listings end in `argsort: {labels_url: …}`
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
"""What makes each step, by its operator's name; its docstring has shapes and units."""


def operator_of(step: Step, labels: LabelReader) -> Operator:
    """Return the operator a step names; `labels` reads a label file by its manifest's name.

    Raises UnknownStep, BadParameter, AssetError.
    """
    maker = MAKERS.get(step.operator)
    if maker is None:
        raise UnknownStep(step.operator, MAKERS)
    parameters = Parameters(step.operator, step.parameters, labels)
    apply = maker(parameters)
    parameters.done()
    return Operator(step.operator, apply, parameters.outputs, step, parameters.wants_samples)
