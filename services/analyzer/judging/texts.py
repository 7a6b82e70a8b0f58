"""Texts, by edits or as answers to questions; and single scores, by their order."""

from collections.abc import Sequence

from mlscope.accuracy import (
    Outcome,
    auc,
    character_error_rate,
    exact_match,
    f1,
    word_error_rate,
)
from services.analyzer.frames import Aim
from services.analyzer.judging.judgement import Judgement
from services.analyzer.predictions import Prediction


def texts(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    """Return exact match and F1 of questions' answers, error rates of transcripts.

    They are answers where the model's `task` has the word question, as `question answering`.
    """
    known = [answer for answer in answers if answer.texts is not None]
    if not known:
        return []
    said = [str(answer.best or "") for answer in known]
    right = [answer.texts or [] for answer in known]
    if "question" in aim.task.casefold():
        # SQuAD v2: a question without answer is answered rightly by nothing.
        accepted = [each or [""] for each in right]
        outcomes = exact_match(said, accepted), _f1(said, accepted)
        return [Judgement(each, "questions", judged=len(known)) for each in outcomes]
    true = [each[0] if each else None for each in right]
    return [
        Judgement(word_error_rate(said, true), "true words", judged=len(known)),
        Judgement(character_error_rate(said, true), "true characters", judged=len(known)),
    ]


def _f1(said: Sequence[str], accepted: Sequence[Sequence[str]]) -> Outcome:
    """Return SQuAD's F1; where nothing is right, nothing said counts 1, as in its script for v2."""
    scored = [
        (answer, right) if right != [""] else ("nothing", ["nothing" if not answer else "no"])
        for answer, right in zip(said, accepted, strict=True)
    ]
    return f1([answer for answer, _ in scored], [right for _, right in scored])


def scores(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    """Return the area under the ROC curve of single scores."""
    pairs = [(_score(each), _yes_or_no(each)) for each in answers]
    known = [(score, label) for score, label in pairs if score is not None and label is not None]
    if not known:
        return []
    outcome = auc([score for score, _ in known], [label for _, label in known])
    return [Judgement(outcome, judged=len(known))]


def _score(answer: Prediction) -> float | None:
    values = answer.features[0].get("values") if answer.features else None
    return float(values[0]) if isinstance(values, list) and len(values) == 1 else None


def _yes_or_no(answer: Prediction) -> int | None:
    told = list(answer.truth.get("values") or answer.truth.get("classes") or [])
    return int(told[0]) if len(told) == 1 and told[0] in (0, 1) else None
