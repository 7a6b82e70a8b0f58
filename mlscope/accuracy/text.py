"""How close predicted text is: SQuAD's exact match and F1, word and character error rates."""

import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from mlscope.accuracy.errors import Unusable
from mlscope.accuracy.outcome import Outcome, mean, require_same_length, share
from mlscope.statistics import Interval

RESAMPLES = 1000
SEED = 1
UNANSWERED = "{} unanswered questions score 0, as in the official script"
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, then without a/an/the, single blanks.

    The order and the alphabet of SQuAD v1.1's evaluate-v1.1.py (Rajpurkar et al. 2016).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_f1(predicted: str, truth: str) -> float:
    """F1 of the normalised answers' words, as bags; 0 where they share none, even if both empty."""
    found, wanted = normalised_answer(predicted).split(), normalised_answer(truth).split()
    shared = (Counter(found) & Counter(wanted)).total()
    return 2.0 * shared / (len(found) + len(wanted)) if shared else 0.0


def exact_match(predicted: Sequence[str | None], truths: Sequence[Sequence[str]]) -> Outcome:
    """Share of questions whose answer equals one of its truths, all normalised (SQuAD v1.1).

    A prediction of None is an unanswered question and scores 0, as officially; a question without
    truths is excluded.
    """
    hits = _best(predicted, truths, lambda a, b: normalised_answer(a) == normalised_answer(b))
    excluded = len(truths) - len(hits)
    found = share("exact match", int(sum(hits)), len(hits), "SQuAD v1.1", excluded=excluded)
    return _with_unanswered(found, predicted, truths)


def f1(predicted: Sequence[str | None], truths: Sequence[Sequence[str]]) -> Outcome:
    """Mean over questions of the best F1 against its truths (SQuAD v1.1), 0 to 1.

    None and questions without truths as in `exact_match`.
    """
    scores = _best(predicted, truths, answer_f1)
    excluded = len(truths) - len(scores)
    found = mean("F1", scores, "SQuAD v1.1, mean of questions", excluded=excluded)
    return _with_unanswered(found, predicted, truths)


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Fewest insertions, deletions and substitutions between two sequences (Levenshtein 1966)."""
    known = {token: at for at, token in enumerate(dict.fromkeys([*first, *second]))}
    one = np.array([known[token] for token in first], np.int64)
    other = np.array([known[token] for token in second], np.int64)
    if one.size < other.size:
        one, other = other, one
    steps = np.arange(other.size + 1)
    row = steps.copy()
    for at, token in enumerate(one):
        best = np.minimum(row[1:] + 1, row[:-1] + (other != token))
        # What remains is insertion from the left: a running minimum once the slope is taken off.
        row = np.minimum.accumulate(np.concatenate([[at + 1], best]) - steps) + steps
    return int(row[-1])


def word_error_rate(predicted: Sequence[str | None], truths: Sequence[str | None]) -> Outcome:
    """Edits over all utterances per true word, 0 and up (above 1: more was made up than said).

    Words are split at white space and compared as they are: case and punctuation count unless the
    caller removes them, on both sides alike. Utterances with a None on either side are excluded.
    `n` is true words.
    """
    return _error_rate("word error rate", "words", predicted, truths, str.split)


def character_error_rate(predicted: Sequence[str | None], truths: Sequence[str | None]) -> Outcome:
    """Edits over all utterances per true character (code point, blanks included), 0 and up.

    As `word_error_rate`; `n` is true characters.
    """
    return _error_rate("character error rate", "characters", predicted, truths, list)


def _best(
    predicted: Sequence[str | None],
    truths: Sequence[Sequence[str]],
    metric: Callable[[str, str], float],
) -> list[float]:
    """Best score of each question that has truths; 0 where it is unanswered."""
    require_same_length("answers against questions", len(predicted), len(truths))
    scores = []
    for answer, accepted in zip(predicted, truths, strict=True):
        if isinstance(accepted, str):
            raise Unusable("truths of a question", accepted, "a sequence of answers")
        if accepted:
            scores.append(
                0.0 if answer is None else float(max(metric(answer, one) for one in accepted))
            )
    return scores


def _with_unanswered(
    found: Outcome, predicted: Sequence[str | None], truths: Sequence[Sequence[str]]
) -> Outcome:
    unanswered = sum(
        answer is None and len(accepted) > 0
        for answer, accepted in zip(predicted, truths, strict=True)
    )
    if not unanswered:
        return found
    return found.warning(UNANSWERED.format(unanswered))


def _error_rate(
    name: str,
    unit: str,
    predicted: Sequence[str | None],
    truths: Sequence[str | None],
    split: Callable[[str], Sequence[str]],
) -> Outcome:
    require_same_length("transcripts against truths", len(predicted), len(truths))
    edits, lengths = [], []
    for said, true in zip(predicted, truths, strict=True):
        if said is not None and true is not None:
            edits.append(edit_distance(split(said), split(true)))
            lengths.append(len(split(true)))
    n, excluded = sum(lengths), len(truths) - len(lengths)
    method = f"edits of all utterances per true {unit[:-1]}"
    if n == 0:
        return Outcome(name, None, 0, None, method, (f"no true {unit}",), excluded)
    return Outcome(name, sum(edits) / n, n, _interval(edits, lengths), method, (), excluded)


def _interval(edits: Sequence[int], lengths: Sequence[int]) -> Interval | None:
    """Percentile bootstrap over utterances, seeded (Bisani and Ney 2004); None for a single one."""
    count = len(edits)
    if count < 2:
        return None
    random = np.random.default_rng(SEED)
    above, below = np.array(edits), np.array(lengths)
    rates = []
    for _ in range(RESAMPLES):
        drawn = random.integers(0, count, count)
        whole = below[drawn].sum()
        if whole:
            rates.append(above[drawn].sum() / whole)
    low, high = np.quantile(rates, [0.025, 0.975])
    return Interval(float(low), float(high), 0.95, "bootstrap of utterances")
