"""Which predictions of a run are kept, and how much of each: bounded, whatever a model says.

The first answer of each sample is kept, up to a number a run. Repeats are compared with it and kept
where they differ, up to `MOST_REPEATS` a sample. What a dataset says is true of a sample goes with
its answers, so that they can be judged wherever the rows end, without the dataset; that is added
when the run's clock stands.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlscope.datasets.truth import Truth
from mlscope.tracing.texts import json_text
from services.agent.finite import output_named
from services.agent.judging import WHOLE, Placing, judged, told_of
from services.agent.predictors import Tensors
from services.agent.recorder import Recorder

Feature = dict[str, Any]
Answers = Sequence[tuple[str, Any]]
"""By output: its name and, first dimension the batch, what its steps made of it."""

MOST_REPEATS = 2
"""Repeats of a sample that are compared with its first answer."""

MOST_BYTES = 256 * 1024
"""Of one answer; above, what is largest in it is left out and its size is said."""

MOST_RUN_BYTES = 256 << 20
"""Of all answers of a run; beyond, no more are kept, and the run says so."""

MOST_VALUES = 1024
"""Numbers of a tensor that no step made an answer of."""

_MOST_WAITING_BYTES = 64 << 20


class Answered(Protocol):
    """What is asked of a query."""

    index: int
    samples: Sequence[int]
    payload: Sequence[Any] | None
    outputs: Tensors | None
    failed: frozenset[int]


@dataclass(slots=True)
class _Seen:
    digest: int
    compared: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An answer whose truth is not yet beside it."""

    query: int
    sample: int
    text: bytes
    features: list[Feature]
    #: what the classes' features were made of, by output
    raw: Mapping[str, str] = field(default_factory=dict)


class KeptOutputs:
    """The predictions of one run that are kept. `truths` are the dataset's, by sample."""

    def __init__(
        self, most: int, truths: Sequence[Truth | None] = (), placing: Placing = WHOLE
    ) -> None:
        self._most, self._truths, self._placing = most, truths, placing
        self._seen: dict[int, _Seen] = {}
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = self._bytes = 0
        self._left = most * (1 + MOST_REPEATS)
        #: what a reader of the run must know of its answers
        self.notes: list[str] = []
        #: repeats that were compared with a sample's first answer
        self.compared = 0

    @property
    def wants_more(self) -> bool:
        """Say whether an answer to come may be kept."""
        return self._left > 0

    def keep(self, recorder: Recorder, query: Answered, answers: Answers | None) -> None:
        """Record the answers of samples not seen before; those that failed have none."""
        if answers is None or query.payload is not None:
            return
        for position, sample in enumerate(query.samples):
            if position in query.failed or not self._is_wanted(sample):
                continue
            features = features_at(answers, position)
            text = json_text(features)
            if self._is_new(sample, text):
                raw = raw_at(query.outputs or {}, answers, position, features)
                self._record(recorder, _Waiting(query.index, sample, text, features, raw))

    def settle(self, recorder: Recorder) -> None:
        """Put their truths beside the answers that wait, and record them."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for each in waiting:
            recorder.output((each.query, each.sample, self._with_truth(each)))

    def _is_wanted(self, sample: int) -> bool:
        seen = self._seen.get(sample)
        if seen is None:
            return len(self._seen) < self._most and self._left > 0
        return seen.compared < MOST_REPEATS and self._left > 0

    def _is_new(self, sample: int, text: bytes) -> bool:
        """Say whether an answer is a sample's first, or another than that."""
        self._left -= 1
        digest, seen = hash(text), self._seen.get(sample)
        if seen is None:
            self._seen[sample] = _Seen(digest)
            return True
        seen.compared += 1
        self.compared += 1
        return digest != seen.digest

    def _record(self, recorder: Recorder, answer: _Waiting) -> None:
        text = answer.text if len(answer.text) <= MOST_BYTES else bounded(answer.features)
        size = len(text) + sum(map(len, answer.raw.values()))
        self._bytes += size
        if self._bytes > MOST_RUN_BYTES:
            self._left = 0
            kept = len(self._seen) - 1
            self.notes.append(
                f"answers of {kept} samples are kept: {MOST_RUN_BYTES} bytes are most"
            )
            return
        needs_all = any(each.get("type") in _JUDGED_WHOLE for each in answer.features)
        kept_features = answer.features if needs_all else []
        kept_answer = replace(answer, text=text, features=kept_features)
        if not len(self._truths):
            recorder.output((answer.query, answer.sample, _composed(kept_answer, {}, {})))
            return
        self._waiting.append(kept_answer)
        self._waiting_bytes += size + (len(answer.text) if needs_all else 0)
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            self.settle(recorder)

    def _with_truth(self, answer: _Waiting) -> bytes:
        try:
            truth = self._truths[answer.sample] if answer.sample < len(self._truths) else None
            told: Mapping[str, Any] = {} if truth is None else told_of(truth, answer.text)
            said = {} if truth is None else judged(answer.features, truth, self._placing)
        except Exception as error:  # noqa: BLE001  # readers are many: a truth must not end a run
            told, said = {}, {"error": f"no truth: {error}"}
        return _composed(answer, told, said)


def _composed(answer: _Waiting, told: Mapping[str, Any], said: Mapping[str, Any]) -> bytes:
    """Return the JSON text of an answer and what goes with it; alone it is its features."""
    parts = {"raw": answer.raw, "truth": told, "judged": said}
    more = b"".join(
        b',"%b":%b' % (name.encode(), json_text(value)) for name, value in parts.items() if value
    )
    return b'{"features":%b%b}' % (answer.text, more) if more else answer.text


_JUDGED_WHOLE = frozenset({"image", "semanticsegment"})
"""Answers that are judged where they are made: nobody stores both pictures."""

_LARGE = ("data", "runs", "mask", "values")
"""What of a feature is left out where it is too large."""


def features_at(answers: Answers, position: int) -> list[Feature]:
    """Return one sample's answer as a list of features.

    Of several outputs all features are in one list, each with its `output`.
    """
    features: list[Feature] = []
    for name, values in answers:
        value = values[position]
        if isinstance(value, np.ndarray | np.generic):
            value = [_tensor_feature(np.asarray(value))]
        features += [{**each, "output": name} for each in value] if len(answers) > 1 else value
    return features


def raw_at(
    outputs: Tensors, answers: Answers, position: int, features: Sequence[Feature]
) -> dict[str, str]:
    """Return what classes were chosen from, of each output: float32, little-endian, in base64.

    The best few say little of how alike two models answer. Outputs above `MOST_VALUES` have none;
    the key of an only output is ''.
    """
    if not outputs or not features or features[0].get("type") != "classification":
        return {}
    found = {}
    for name, values in answers:
        row = None if isinstance(values, np.ndarray) else _row_of(outputs, name, position)
        if row is not None and row.dtype.kind == "f" and row.size <= MOST_VALUES:
            body = base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")
            found[name if len(answers) > 1 else ""] = body
    return found


def _row_of(outputs: Tensors, name: str, position: int) -> npt.NDArray[Any] | None:
    """Return one sample's part of an output; None of one that has no such part, or is no tensor."""
    try:
        tensor = output_named(outputs, name)
        return np.asarray(tensor[position]) if isinstance(tensor, np.ndarray) else None
    except LookupError:
        return None


def bounded(features: Sequence[Feature]) -> bytes:
    """Return the JSON text of features without what is too large, at most `MOST_BYTES` of it.

    A feature that lost something says what and how large it was in `left_out`; features that
    have no room at all are left out, those at the end first, and the last that is kept says how
    many in `left_out_features`.
    """
    told = [_without_large(each) for each in features]
    text = json_text(told)
    while len(text) > MOST_BYTES and len(told) > 1:
        told = told[: len(told) // 2]
        told[-1] = {**told[-1], "left_out_features": len(features) - len(told)}
        text = json_text(told)
    return text if len(text) <= MOST_BYTES else b'[{"left_out":{"feature":%d}}]' % len(text)


def _without_large(feature: Feature) -> Feature:
    sizes = {name: len(json_text(feature[name])) for name in _LARGE if name in feature}
    if not sizes:
        return feature
    kept = {name: value for name, value in feature.items() if name not in sizes}
    return {**kept, "left_out": sizes}


def _tensor_feature(tensor: npt.NDArray[np.generic]) -> Feature:
    """Describe a raw tensor: shape, element type, mean, and its first values."""
    values = tensor.astype(np.float64).ravel()
    return {
        "type": "raw",
        "shape": list(tensor.shape),
        "element_type": str(tensor.dtype),
        "mean": float(values.mean()) if values.size else 0.0,
        "values": values[:MOST_VALUES].tolist(),
    }
