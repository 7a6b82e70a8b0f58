"""Accuracy of predicted texts: SQuAD's exact match and F1, word and character error rates. Pure."""

import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from mlscope.accuracy.errors import Unusable
from mlscope.accuracy.outcome import Outcome, mean, require_same_length, share
from mlscope.statistics import Interval

RESAMPLES = 1000
SEED = 1
MOST_COMPARED = 10**10
"""Pairs of units that are compared for all edit distances of one metric: they take a minute."""
TOO_LONG = "utterances that are too long to be compared: {}"
UNANSWERED = "{} unanswered questions score 0, as in the official script"
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised_answer(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation, then without a/an/the.

    Single blanks separate its words. Order and alphabet are those of SQuAD v1.1's evaluate-v1.1.py
    (Rajpurkar et al. 2016).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_f1(predicted: str, truth: str) -> float:
    """Return the F1 of the normalised answers' words, 0 to 1; 0 without a common word.

    2 x common words / words of both, words counted as often as they occur (Rajpurkar et al. 2016).
    """
    predicted_tokens, true_tokens = (
        normalised_answer(predicted).split(),
        normalised_answer(truth).split(),
    )
    shared = (Counter(predicted_tokens) & Counter(true_tokens)).total()
    return 2.0 * shared / (len(predicted_tokens) + len(true_tokens)) if shared else 0.0


def exact_match(predicted: Sequence[str | None], truths: Sequence[Sequence[str]]) -> Outcome:
    """Return the share of questions whose answer equals one of its truths, all normalised.

    SQuAD v1.1, 0 to 1. A prediction of None is an unanswered question and scores 0, as in the
    official script; a question without truths is excluded.
    """
    hits = _best(predicted, truths, lambda a, b: normalised_answer(a) == normalised_answer(b))
    excluded = len(truths) - len(hits)
    outcome = share("exact match", int(sum(hits)), len(hits), "SQuAD v1.1", excluded=excluded)
    return _with_unanswered(outcome, predicted, truths)


def f1(predicted: Sequence[str | None], truths: Sequence[Sequence[str]]) -> Outcome:
    """Return the mean over questions of the best F1 against its truths (SQuAD v1.1), 0 to 1.

    None and questions without truths as in `exact_match`.
    """
    scores = _best(predicted, truths, answer_f1)
    excluded = len(truths) - len(scores)
    outcome = mean("F1", scores, "SQuAD v1.1, mean of questions", excluded=excluded)
    return _with_unanswered(outcome, predicted, truths)


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that make the sequences equal.

    Levenshtein 1966.
    """
    numbers = {token: n for n, token in enumerate(dict.fromkeys([*first, *second]))}
    longer = np.array([numbers[token] for token in first], np.int64)
    shorter = np.array([numbers[token] for token in second], np.int64)
    if longer.size < shorter.size:
        longer, shorter = shorter, longer
    steps = np.arange(longer.size + 1)
    row = steps.copy()
    for deletions, token in enumerate(shorter, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (longer != token))
        # Insertions from the left are a running minimum once their slope is subtracted.
        row = np.minimum.accumulate(np.concatenate([[deletions], best]) - steps) + steps
    return int(row[-1])


def edit_distances(
    pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]],
) -> list[int | None]:
    """Return the edit distance of each pair.

    None of one that would compare more than `MOST_COMPARED` units with those before it.
    """
    distances: list[int | None] = []
    compared = 0
    for first, second in pairs:
        own = len(first) * len(second)
        is_affordable = compared + own <= MOST_COMPARED
        distances.append(edit_distance(first, second) if is_affordable else None)
        compared += own if is_affordable else 0
    return distances


def word_error_rate(predicted: Sequence[str | None], truths: Sequence[str | None]) -> Outcome:
    """Return the edits of all utterances per true word, 0 and up (above 1 with many insertions).

    Words are split at white space and compared as they are: case and punctuation count unless the
    caller removes them on both sides. Utterances with a None on either side are excluded. `n`
    counts true words.
    """
    return _error_rate("word error rate", "words", predicted, truths, str.split)


def character_error_rate(predicted: Sequence[str | None], truths: Sequence[str | None]) -> Outcome:
    """Return the edits of all utterances per true character (code point, with blanks), 0 and up.

    As `word_error_rate`; `n` counts true characters.
    """
    return _error_rate("character error rate", "characters", predicted, truths, list)


def _best(
    predicted: Sequence[str | None],
    truths: Sequence[Sequence[str]],
    metric: Callable[[str, str], float],
) -> list[float]:
    """Return the best score of each question that has truths; 0 where it is unanswered."""
    require_same_length("answers against questions", len(predicted), len(truths))
    scores = []
    for answer, accepted in zip(predicted, truths, strict=True):
        if isinstance(accepted, str):
            raise Unusable("truths of a question", accepted, "a sequence of answers")
        if accepted:
            best = 0.0 if answer is None else max(metric(answer, truth) for truth in accepted)
            scores.append(float(best))
    return scores


def _with_unanswered(
    outcome: Outcome, predicted: Sequence[str | None], truths: Sequence[Sequence[str]]
) -> Outcome:
    """Return the outcome with a caveat that counts the unanswered questions, if any."""
    unanswered = sum(
        answer is None and len(accepted) > 0
        for answer, accepted in zip(predicted, truths, strict=True)
    )
    if not unanswered:
        return outcome
    return outcome.warning(UNANSWERED.format(unanswered))


def _error_rate(
    name: str,
    unit: str,
    predicted: Sequence[str | None],
    truths: Sequence[str | None],
    split: Callable[[str], Sequence[str]],
) -> Outcome:
    """Return the edits per true `unit` over all utterances, with an interval over utterances.

    `split` returns the units of a text.
    """
    require_same_length("transcripts against truths", len(predicted), len(truths))
    pairs = [
        (split(transcript), split(truth))
        for transcript, truth in zip(predicted, truths, strict=True)
        if transcript is not None and truth is not None
    ]
    counted = zip(edit_distances(pairs), pairs, strict=True)
    rows = [(distance, len(truth)) for distance, (_, truth) in counted if distance is not None]
    edits, lengths = [distance for distance, _ in rows], [length for _, length in rows]
    caveats = (TOO_LONG.format(len(pairs) - len(rows)),) if len(rows) < len(pairs) else ()
    n, excluded = sum(lengths), len(truths) - len(lengths)
    method = f"edits of all utterances per true {unit[:-1]}"
    if n == 0:
        return Outcome(name, None, 0, None, method, (f"no true {unit}", *caveats), excluded)
    interval = _interval_of_rate(edits, lengths)
    return Outcome(name, sum(edits) / n, n, interval, method, caveats, excluded)


def _interval_of_rate(edits: Sequence[int], lengths: Sequence[int]) -> Interval | None:
    """Return the seeded percentile bootstrap over utterances; None for fewer than two.

    Bisani and Ney 2004.
    """
    count = len(edits)
    if count < 2:
        return None
    random = np.random.default_rng(SEED)
    edit_counts, unit_counts = np.array(edits), np.array(lengths)
    rates = []
    for _ in range(RESAMPLES):
        drawn = random.integers(0, count, count)
        units = unit_counts[drawn].sum()
        if units:
            rates.append(edit_counts[drawn].sum() / units)
    low, high = np.quantile(rates, [0.025, 0.975])
    return Interval(float(low), float(high), 0.95, "bootstrap of utterances")
