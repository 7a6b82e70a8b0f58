"""answer_span: the part of a text that answers a question, from scores of its pieces."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.operators.wordpiece import Vocabulary, located_pieces, pieces_of, truncate
from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]
Batch = npt.NDArray[Any]


def answer_span(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return scores of first and of last pieces, both (batch, length) -> each sample's answer.

    A feature is `{"type": "text", "text", "score"}`. The samples are pairs [question, context], as
    the reader `squad` returns them, and were tokenized by `tokenize` with the same `vocabulary` and
    `lowercase`. `end` names the output that scores last pieces. The answer is the part of the
    context between the two pieces with the highest sum of scores, of at most `most_pieces`, the
    last not before the first (as in BERT's run_squad.py, but over all pieces and not its 20 best).
    With `may_be_none` (SQuAD 2.0) it is '' where the sum of [CLS] is higher by more than
    `null_threshold`.
    """
    end = parameters.output("end")
    if not end:
        raise BadParameter("answer_span", "end", None, "the output that scores last pieces")
    vocabulary = Vocabulary.read(parameters)
    max_pieces = parameters.integer("most_pieces", default=30)
    may_be_none = parameters.flag("may_be_none", default=False)
    null_threshold = parameters.number("null_threshold", default=0.0)
    parameters.want_samples()

    def apply(starts: Batch, ends: Batch, samples: Sequence[Any]) -> list[list[Feature]]:
        rows = zip(starts, ends, samples, strict=True)
        return [
            [answer(start, end, *question_and_context(sample))] if sample is not None else []
            for start, end, sample in rows
        ]

    def answer(starts: Batch, ends: Batch, question: str, context: str) -> Feature:
        question_pieces = pieces_of(question, vocabulary)
        context_pieces, extents = located_pieces(context, vocabulary)
        starts, ends = starts.reshape(-1).astype(np.float64), ends.reshape(-1).astype(np.float64)
        truncate([question_pieces, context_pieces], starts.size - 3)
        first, count = len(question_pieces) + 2, len(context_pieces)
        null_score = float(starts[0] + ends[0])
        if not count:
            return {"type": "text", "text": "", "score": null_score}
        sums = starts[first : first + count, None] + ends[None, first : first + count]
        distance = np.arange(count)[None, :] - np.arange(count)[:, None]
        sums = np.where((distance >= 0) & (distance < max_pieces), sums, -np.inf)
        begin, last = divmod(int(sums.argmax()), count)
        best = float(sums[begin, last])
        if may_be_none and null_score - best > null_threshold:
            return {"type": "text", "text": "", "score": null_score}
        text = context[extents[begin][0] : extents[last][1]]
        return {"type": "text", "text": text, "score": best}

    return apply


def question_and_context(sample: Any) -> tuple[str, str]:
    """Return the texts of a sample, a pair or a map. Raises ValueError for anything else."""
    if isinstance(sample, Mapping):
        sample = [sample.get("question"), sample.get("context")]
    is_pair = isinstance(sample, list | tuple) and len(sample) == 2
    if not is_pair or not all(isinstance(text, str) for text in sample):
        raise ValueError("a sample must be a pair of question and context")
    return sample[0], sample[1]
