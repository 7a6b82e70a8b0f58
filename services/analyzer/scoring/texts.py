"""Texts, scored by edits or as answers to questions; and single scores, by their order."""

from collections.abc import Sequence

from mlscope.accuracy import (
    auc,
    character_error_rate,
    exact_match,
    f1,
    word_error_rate,
)
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.judgement import Judgement


def texts(answers: Sequence[Prediction], scoring_context: ScoringContext) -> list[Judgement]:
    """Return exact match and F1 of answers to questions, or error rates of transcripts.

    Texts answer questions where the model's `task` has the word question, as in `question
    answering`.
    """
    with_texts = [answer for answer in answers if answer.texts is not None]
    if not with_texts:
        return []
    answered = [str(answer.best or "") for answer in with_texts]
    truths = [answer.texts or [] for answer in with_texts]
    if "question" in scoring_context.task.casefold():
        return answers_to_questions(answered, truths)
    return transcripts(answered, truths)


def answers_to_questions(
    answered: Sequence[str], truths: Sequence[Sequence[str]]
) -> list[Judgement]:
    """Return exact match and F1 of the texts `answered`, each with the right ones of `truths`.

    SQuAD v2: the right answer to a question without answer is no text. In its F1 an empty answer to
    such a question counts 1.
    """
    accepted = [list(right) or [""] for right in truths]
    f1_pairs = [_f1_pair(*pair) for pair in zip(answered, accepted, strict=True)]
    f1_score = f1([answer for answer, _ in f1_pairs], [right for _, right in f1_pairs])
    outcomes = exact_match(answered, accepted), f1_score
    return [Judgement(outcome, "questions", judged=len(answered)) for outcome in outcomes]


def _f1_pair(answer: str, right: list[str]) -> tuple[str, list[str]]:
    """Return an answer and its `right` ones for F1, where an empty answer has a word of its own."""
    if right != [""]:
        return answer, right
    return "nothing", ["no" if answer else "nothing"]


def transcripts(answered: Sequence[str], truths: Sequence[Sequence[str]]) -> list[Judgement]:
    """Return error rates of the texts `answered` by words and characters, against `truths`."""
    right = [accepted[0] if accepted else None for accepted in truths]
    rates = {
        "true words": word_error_rate(answered, right),
        "true characters": character_error_rate(answered, right),
    }
    return [Judgement(rate, unit, judged=len(answered)) for unit, rate in rates.items()]


def scores(answers: Sequence[Prediction], _: ScoringContext) -> list[Judgement]:
    """Return the area under the ROC curve of single scores, whose truth is 0 or 1."""
    values, labels = [], []
    for answer in answers:
        score = answer.features[0].get("values") if answer.features else None
        truth = list(answer.truth.get("values") or answer.truth.get("classes") or [])
        if isinstance(score, list) and len(score) == 1 and truth in ([0], [1]):
            values.append(float(score[0]))
            labels.append(int(truth[0]))
    if not values:
        return []
    return [Judgement(auc(values, labels), judged=len(values))]
