"""The first steps of pictures carried out by the model's device, for a whole batch at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from services.agent.errors import SAMPLE_ERRORS, BadOption
from services.agent.predictors import Predictor
from services.agent.predictors.decoding import (
    OPTION,
    PictureDecoder,
    PictureFault,
    PictureSteps,
    size_fault,
)
from services.agent.steps import Operator, operator_of
from services.agent.steps.forms import Array, DecodeForm, DeviceForm
from services.agent.steps.linking import linked
from services.agent.steps.parameters import LabelReader
from services.agent.worker.queries.operator_runner import OperatorRunner
from services.agent.worker.queries.pipeline import DeviceDecoding, Pipeline
from services.agent.worker.queries.query import Query, Slot

DECODING_THREADS = 2
"""Threads that fill slots: one checks the files of a batch while the device decodes another's."""
PrepareRest = Callable[[Query, Slot, int, Callable[[], Any]], None]
"""Takes what a function returns, for a place in a batch, through the steps that are left."""


def decoded_on_device(
    pipeline: Pipeline, predictor: Predictor, sample: Any, labels: LabelReader
) -> Pipeline:
    """Return a pipeline whose first steps the device of a `predictor` carries out, if asked for it.

    The first `sample` tells how far its pixels are from those of the steps on the host; `labels`
    reads label files. Raises BadOption, PackageMissing.
    """
    if not (isinstance(predictor, PictureDecoder) and predictor.decodes_pictures):
        return pipeline
    ports = pipeline.before
    if pipeline.code_before or len(ports) != 1 or not isinstance(sample, bytes):
        raise BadOption(OPTION, "device", "host: it needs one input whose samples are files")
    operators = [operator_of(step.step, labels) for step in ports[0].steps if step.step]
    forms = _forms_on_device(operators)
    if not forms:
        raise BadOption(OPTION, "device", "host: the first step is not a decode to RGB or BGR")
    head, tail = operators[: len(forms)], operators[len(forms) :]
    steps = predictor.picture_steps(forms)
    note = _difference_note(steps, head, sample)
    decode = replace(head[0], library=steps.library, notes=(note,))
    later_operators = [replace(operator, library="") for operator in head[1:]]
    orders = _orders_of(tail)
    count = len(head) if orders is None else len(operators)
    decoding = DeviceDecoding(steps, count, orders)
    port = replace(
        ports[0], steps=(decode, *later_operators, *linked(tail)), device_decoding=decoding
    )
    return replace(pipeline, before=(port,))


def _forms_on_device(operators: Sequence[Operator]) -> list[DeviceForm]:
    """Return the forms of the first operators that a device can carry out."""
    forms: list[DeviceForm] = []
    for operator in operators:
        form = operator.forms.on_device
        if form is None or isinstance(form, DecodeForm) is bool(forms):
            break
        forms.append(form)
    return forms


def _orders_of(tail: Sequence[Operator]) -> tuple[tuple[int, ...], ...] | None:
    """Return the orders that the `tail` of the steps give to a picture of bytes.

    None where they do more than that.
    """
    bytes_types = (None, np.dtype(np.uint8))
    forms = [operator.forms for operator in tail]
    if any(form.order is None or form.element_type not in bytes_types for form in forms):
        return None
    return tuple(form.order for form in forms if form.order)


def _difference_note(steps: PictureSteps, head: Sequence[Operator], body: bytes) -> str:
    """Return how far a device's pixels of a file's `body` are from those of the host's steps."""
    (picture,) = steps.apply([body]).pictures
    if isinstance(picture, PictureFault):
        raise BadOption(OPTION, "device", f"host: the first sample is {picture.reason}")
    expected: Any = body
    for operator in head:
        expected = operator.apply(expected)
    distances = np.abs(picture.astype(np.int16) - expected.astype(np.int16))
    differing = np.count_nonzero(distances) / distances.size
    names = ", ".join(operator.name for operator in head)
    return (
        f"{names} run on the device by {steps.library}: of the dataset's first picture its pixels"
        f" are up to {distances.max()} of 255 from those of the steps on the host,"
        f" {distances.mean():.2g} on average, and {differing:.0%}"
        " of them differ"
    )


def _as_it_is(picture: Array) -> Array:
    return picture


@dataclass(frozen=True, slots=True)
class DeviceDecodingFilling:
    """Fills places of slots with samples whose first steps `device_decoding` carries out."""

    device_decoding: DeviceDecoding
    #: of one sample
    names: Sequence[str]
    runner: OperatorRunner
    prepare_rest: PrepareRest

    def fill(self, query: Query, slot: Slot, positions: Sequence[int]) -> None:
        """Prepare the samples at some `positions` of a `query`, whose batch is in a `slot`."""
        bodies: dict[int, bytes] = {}
        for position in positions:
            try:
                body = self.runner.sample(query, position)
                if not isinstance(body, bytes):
                    raise TypeError(f"the sample is {type(body).__name__}, not a file's bytes")
                bodies[position] = body
            except SAMPLE_ERRORS as error:
                query.unusable[position] = self.runner.failure(query, position, "read", error)
        places = self._places(slot)
        first, last = min(bodies, default=0), max(bodies, default=-1)
        is_row = places is not None and 0 < len(bodies) == last - first + 1
        batch = places[first : last + 1] if places is not None and is_row else None
        prepared = self.device_decoding.device.apply(list(bodies.values()), batch)
        for position, picture in zip(bodies, prepared.pictures, strict=True):
            if isinstance(picture, PictureFault):
                self._fail(query, position, picture)
            elif places is None:
                self.prepare_rest(query, slot, position, partial(_as_it_is, picture))
            elif batch is None and picture.shape != places.shape[1:]:
                last_step = len(prepared.stamps_ns) - 3
                reason = size_fault(picture.shape[:2], places.shape[1:3])
                self._fail(query, position, PictureFault(last_step, reason))
            elif batch is None:
                places[position] = picture
        if self.runner.traces_steps and bodies:
            self._record(query, list(bodies), prepared.stamps_ns)

    def _fail(self, query: Query, position: int, fault: PictureFault) -> None:
        reason = self.runner.failure(query, position, self.names[fault.step], fault.reason)
        query.unusable[position] = reason

    def _places(self, slot: Slot) -> Array | None:
        """Return the places of a slot as pictures; None where steps on the host are left."""
        if self.device_decoding.orders is None:
            return None
        places: Array = slot.arrays[0]
        for order in reversed(self.device_decoding.orders):
            places = places.transpose(0, *(int(axis) + 1 for axis in np.argsort(order)))
        return places

    def _record(self, query: Query, positions: Sequence[int], stamps_ns: Sequence[int]) -> None:
        """Record each sample's equal share of the steps as its spans.

        The copy to the host is in the last step on the device, or in the one after it where the
        steps that are left only order bytes.
        """
        began_and_ends, copied_ns = stamps_ns[:-1], stamps_ns[-1]
        missing_steps = self.device_decoding.steps - (len(began_and_ends) - 1)
        ends = [*began_and_ends[1:], *[copied_ns] * missing_steps]
        ends[-1] = copied_ns
        count, first_span = len(positions), query.first_span + 1
        for number, (began_ns, ended_ns) in enumerate(
            zip([stamps_ns[0], *ends], ends, strict=False)
        ):
            share_ns = (ended_ns - began_ns) / count
            for place, position in enumerate(positions):
                span = first_span + position * len(self.names) + number
                times_ns = (
                    began_ns + round(place * share_ns),
                    began_ns + round((place + 1) * share_ns),
                )
                self.runner.record_span_until(query, span, self.names[number], times_ns)
