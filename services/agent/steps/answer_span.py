"""answer_span: the part of a text that answers a question, by its first and last piece."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters
from services.agent.steps.wordpiece import Vocabulary, cut, pieces_of

Feature = dict[str, Any]
Batch = npt.NDArray[Any]
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Choosing:
    """How an answer is chosen among those that are possible."""

    most_pieces: int
    may_be_none: bool
    null_threshold: float


def answer_span(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return (batch, length) of starts, and of ends -> for each sample its answer.

    A feature is `{"type": "text", "text", "score"}`. The samples are pairs [question, context], as
    `squad` gives them and `tokenize` with the same `vocabulary` and `lowercase` took them; `end` is
    the output that scores last pieces. The answer is the context's own characters between the two
    pieces of the highest sum of both scores, of at most `most_pieces`, the last not before the
    first (as BERT's run_squad.py chooses, over all and not its 20 best). With `may_be_none`
    (SQuAD 2.0) it is '' where [CLS]'s sum is higher than that by more than `null_threshold`.
    """
    end = parameters.output("end")
    if not end:
        raise BadParameter("answer_span", "end", None, "the output that scores last pieces")
    vocabulary = Vocabulary.read(parameters)
    choosing = _Choosing(
        parameters.whole("most_pieces", default=30),
        parameters.flag("may_be_none", default=False),
        parameters.number("null_threshold", default=0.0),
    )
    parameters.want_samples()

    def apply(starts: Batch, ends: Batch, samples: Sequence[Any]) -> list[list[Feature]]:
        rows = zip(starts, ends, samples, strict=True)
        return [
            [_answer(start, end, sample, vocabulary, choosing)] if sample is not None else []
            for start, end, sample in rows
        ]

    return apply


def _answer(
    starts: Batch, ends: Batch, sample: Any, vocabulary: Vocabulary, choosing: _Choosing
) -> Feature:
    question, context = _texts(sample)
    asked = pieces_of(question, vocabulary)
    pieces, places = _placed(context, vocabulary)
    width = starts.reshape(-1).size
    parts = [asked, pieces]
    cut(parts, width - 3)
    first, count = len(asked) + 2, len(pieces)
    starts, ends = (each.reshape(-1).astype(np.float64) for each in (starts, ends))
    none = float(starts[0] + ends[0])
    if not count:
        return {"type": "text", "text": "", "score": none}
    sums = starts[first : first + count, None] + ends[None, first : first + count]
    distance = np.arange(count)[None, :] - np.arange(count)[:, None]
    sums = np.where((distance >= 0) & (distance < choosing.most_pieces), sums, -np.inf)
    begin, last = divmod(int(sums.argmax()), count)
    best = float(sums[begin, last])
    if choosing.may_be_none and none - best > choosing.null_threshold:
        return {"type": "text", "text": "", "score": none}
    return {"type": "text", "text": context[places[begin][0] : places[last][1]], "score": best}


def _texts(sample: Any) -> tuple[str, str]:
    if isinstance(sample, Mapping):
        sample = [sample.get("question"), sample.get("context")]
    if not isinstance(sample, list | tuple) or len(sample) != 2:
        raise ValueError("a pair of question and context is needed")
    question, context = sample
    if not isinstance(question, str) or not isinstance(context, str):
        raise ValueError("a pair of question and context is needed")
    return question, context


def _placed(text: str, vocabulary: Vocabulary) -> tuple[list[str], list[Place]]:
    """Return a text's pieces, and where in it each begins and ends.

    A piece of a word that changes its length when it is cleaned is placed at the whole word.
    """
    pieces: list[str] = []
    places: list[Place] = []
    for word in re.finditer(r"\S+", text):
        found = pieces_of(word[0], vocabulary)
        lengths = [len(each.removeprefix("##")) for each in found]
        is_whole = sum(lengths) != len(word[0]) or "[UNK]" in found
        at = word.start()
        for piece, length in zip(found, lengths, strict=True):
            pieces.append(piece)
            places.append(word.span() if is_whole else (at, at + length))
            at += length
    return pieces, places
