"""Keeps predictions of a run, within limits on their number and size.

The first answer of each sample is kept, up to a number for each run. Repeats are compared with it
and kept where they differ, up to `MOST_REPEATS` for each sample. A sample's ground truth is kept
with its answers, so that they can be scored later without the dataset; it is added after the run's
clock has stopped.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlscope.datasets.truth import Truth
from mlscope.tracing.texts import json_text
from services.agent.predictors import Tensors
from services.agent.worker.answers.non_finite import output_named
from services.agent.worker.answers.scoring import (
    WHOLE_IMAGE,
    ImagePlacement,
    image_scores,
    truth_fields,
)
from services.agent.worker.recorder import RunRecorder

Feature = dict[str, Any]
OutputAnswers = Sequence[tuple[str, Any]]
"""By output: its name, and its answers; the first dimension is the batch."""

MOST_REPEATS = 2
"""Repeats of a sample that are compared with its first answer."""

MOST_BYTES = 256 * 1024
"""Of one answer; in a larger one the largest fields are replaced by their size."""

MOST_RUN_BYTES = 256 << 20
"""Of all answers of a run; beyond it no more are kept, which is a caveat."""

MOST_VALUES = 1024
"""Numbers of a tensor that are kept where no step processes it."""

_MOST_WAITING_BYTES = 64 << 20


class AnsweredQuery(Protocol):
    """What is needed of a query."""

    index: int
    samples: Sequence[int]
    payload: Sequence[Any] | None
    outputs: Tensors | None
    failed: frozenset[int]


@dataclass(slots=True)
class _FirstAnswer:
    digest: int
    compared: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An answer without its ground truth so far."""

    query: int
    sample: int
    text: bytes
    features: list[Feature]
    #: the scores that classes were chosen from, by output
    raw: Mapping[str, str] = field(default_factory=dict)


class KeptOutputs:
    """The kept predictions of one run, for at most `limit` samples.

    `truths` are the dataset's, by sample; `placement` says how a map of classes lies on its image.
    """

    def __init__(
        self,
        limit: int,
        truths: Sequence[Truth | None] = (),
        placement: ImagePlacement = WHOLE_IMAGE,
    ) -> None:
        self._limit, self._truths, self._placement = limit, truths, placement
        self._first_answers: dict[int, _FirstAnswer] = {}
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = self._bytes = 0
        self._remaining = limit * (1 + MOST_REPEATS)
        #: caveats about the answers
        self.notes: list[str] = []
        #: repeats compared with a sample's first answer
        self.compared = 0

    @property
    def has_room(self) -> bool:
        """Whether another answer may be kept."""
        return self._remaining > 0

    def keep(
        self, recorder: RunRecorder, query: AnsweredQuery, answers: OutputAnswers | None
    ) -> None:
        """Record the new `answers` to a query with a `recorder`; failed samples have none."""
        if answers is None or query.payload is not None:
            return
        for position, sample in enumerate(query.samples):
            if position in query.failed or not self._may_keep(sample):
                continue
            features = features_at(answers, position)
            text = json_text(features)
            if self._differs(sample, text):
                raw = raw_scores_at(query.outputs or {}, answers, position, features)
                self._record(recorder, _Waiting(query.index, sample, text, features, raw))

    def may_compare(self, query: AnsweredQuery) -> bool:
        """Whether the answer of a query, or of a sample of it, may be compared with the first."""
        return self._remaining > 0 and any(map(self._may_compare, query.samples))

    def count_equal(self, query: AnsweredQuery) -> None:
        """Count that the answers to a query's samples are known to equal their first ones."""
        for position, sample in enumerate(query.samples):
            if position not in query.failed and self._may_compare(sample):
                self._first_answers[sample].compared += 1
                self._remaining -= 1
                self.compared += 1

    def _may_compare(self, sample: int) -> bool:
        first = self._first_answers.get(sample)
        return first is not None and first.compared < MOST_REPEATS

    def settle(self, recorder: RunRecorder) -> None:
        """Record the answers that wait for their ground truth, with it."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for answer in waiting:
            try:
                truth = self._truths[answer.sample] if answer.sample < len(self._truths) else None
                fields = truth_fields(truth, answer.text) if truth else {}
                scores = image_scores(answer.features, truth, self._placement) if truth else {}
            except Exception as error:  # noqa: BLE001  # a truth's reader must not end a run
                fields, scores = {}, {"error": f"no truth: {error}"}
            recorder.output((answer.query, answer.sample, _answer_json(answer, fields, scores)))

    def _may_keep(self, sample: int) -> bool:
        first = self._first_answers.get(sample)
        if first is None:
            return len(self._first_answers) < self._limit and self._remaining > 0
        return first.compared < MOST_REPEATS and self._remaining > 0

    def _differs(self, sample: int, text: bytes) -> bool:
        """Return whether an answer is a sample's first, or differs from that."""
        self._remaining -= 1
        digest, first = hash(text), self._first_answers.get(sample)
        if first is None:
            self._first_answers[sample] = _FirstAnswer(digest)
            return True
        first.compared += 1
        self.compared += 1
        return digest != first.digest

    def _record(self, recorder: RunRecorder, answer: _Waiting) -> None:
        text = answer.text if len(answer.text) <= MOST_BYTES else bounded_json(answer.features)
        size = len(text) + sum(map(len, answer.raw.values()))
        self._bytes += size
        if self._bytes > MOST_RUN_BYTES:
            self._remaining = 0
            count = len(self._first_answers) - 1
            self.notes.append(
                f"only the answers of {count} samples are kept: the limit is {MOST_RUN_BYTES} bytes"
            )
            return
        needs_features = any(feature.get("type") in _SCORED_HERE for feature in answer.features)
        kept_features = answer.features if needs_features else []
        kept_answer = replace(answer, text=text, features=kept_features)
        if not len(self._truths):
            recorder.output((answer.query, answer.sample, _answer_json(kept_answer, {}, {})))
            return
        self._waiting.append(kept_answer)
        self._waiting_bytes += size + (len(answer.text) if needs_features else 0)
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            self.settle(recorder)


def _answer_json(answer: _Waiting, truth: Mapping[str, Any], scores: Mapping[str, Any]) -> bytes:
    """Return an answer as JSON with its ground truth and scores, or else its features alone."""
    parts = {"raw": answer.raw, "truth": truth, "judged": scores}
    fields = b"".join(
        b',"%b":%b' % (name.encode(), json_text(value)) for name, value in parts.items() if value
    )
    return b'{"features":%b%b}' % (answer.text, fields) if fields else answer.text


_SCORED_HERE = frozenset({"image", "semanticsegment"})
"""Answers that are scored in the worker: two images for each sample are too large to store."""

_LARGE_FIELDS = ("data", "runs", "mask", "values")
"""Fields of a feature that are left out where it is too large."""


def features_at(answers: OutputAnswers, position: int) -> list[Feature]:
    """Return the answer of the sample at a position of the batch, as a list of features.

    The features of several outputs are in one list, each with its `output`.
    """
    features: list[Feature] = []
    for name, values in answers:
        value = values[position]
        if isinstance(value, np.ndarray | np.generic):
            value = [tensor_feature(np.asarray(value))]
        features += (
            [{**feature, "output": name} for feature in value] if len(answers) > 1 else value
        )
    return features


def raw_scores_at(
    outputs: Tensors, answers: OutputAnswers, position: int, features: Sequence[Feature]
) -> dict[str, str]:
    """Return the scores that classes were chosen from, by output: float32, little-endian, base64.

    They show how similar two models are; the best few classes do not. `outputs` are the model's,
    `answers` and `features` what its steps made of them; `position` is the sample's in the batch.
    Outputs of more than `MOST_VALUES` numbers have none; the key of a single output is ''.
    """
    if not outputs or not features or features[0].get("type") != "classification":
        return {}
    scores = {}
    for name, values in answers:
        if isinstance(values, np.ndarray):
            continue
        try:
            tensor = output_named(outputs, name)
            row = np.asarray(tensor[position]) if isinstance(tensor, np.ndarray) else None
        except LookupError:
            continue
        if row is not None and row.dtype.kind == "f" and row.size <= MOST_VALUES:
            body = base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")
            scores[name if len(answers) > 1 else ""] = body
    return scores


def bounded_json(features: Sequence[Feature]) -> bytes:
    """Return features as JSON without their large fields, in at most `MOST_BYTES`.

    `left_out` of a feature gives the sizes of the fields it lost. Features without room are left
    out, those at the end first; `left_out_features` of the last one kept gives their number.
    """
    small = []
    for feature in features:
        sizes = {name: len(json_text(feature[name])) for name in _LARGE_FIELDS if name in feature}
        fields = {name: value for name, value in feature.items() if name not in sizes}
        small.append({**fields, "left_out": sizes} if sizes else feature)
    text = json_text(small)
    while len(text) > MOST_BYTES and len(small) > 1:
        small = small[: len(small) // 2]
        small[-1] = {**small[-1], "left_out_features": len(features) - len(small)}
        text = json_text(small)
    return text if len(text) <= MOST_BYTES else b'[{"left_out":{"feature":%d}}]' % len(text)


def tensor_feature(tensor: npt.NDArray[np.generic]) -> Feature:
    """Return a raw tensor as a feature: shape, element type, mean, and its first values."""
    values = tensor.astype(np.float64).ravel()
    return {
        "type": "raw",
        "shape": list(tensor.shape),
        "element_type": str(tensor.dtype),
        "mean": float(values.mean()) if values.size else 0.0,
        "values": values[:MOST_VALUES].tolist(),
    }
