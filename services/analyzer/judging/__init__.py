"""Answers against truths: which metrics a kind of answer has, and what each says of a dataset.

What decides is the kind of the answers and what their dataset knows, not the name of a task; but
texts are questions' answers or transcripts, which only the task tells. The formulas are
`mlscope.accuracy`'s.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from services.analyzer.frames import Aim
from services.analyzer.judging.classes import classes
from services.analyzer.judging.judgement import Judge, Judgement
from services.analyzer.judging.pictures import pictures, pixels
from services.analyzer.judging.shapes import shapes
from services.analyzer.judging.texts import scores, texts
from services.analyzer.predictions import Prediction

__all__ = ["Judgement", "judge"]


def judge(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    """Return what each metric that fits the answers says; none fits where nothing is known.

    Raises AccuracyError.
    """
    kinds = [answer.kind for answer in answers if _is_known(answer) and answer.kind]
    judge_of = _JUDGES.get(max(set(kinds), key=kinds.count)) if kinds else None
    if judge_of is None:
        return []
    return judge_of([each for each in answers if _is_known(each)], aim)


def _is_known(answer: Prediction) -> bool:
    return bool(answer.truth or answer.judged)


_JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "classification": classes,
        "boundingbox": shapes,
        "instancesegment": shapes,
        "semanticsegment": pixels,
        "image": pictures,
        "text": texts,
        "raw": scores,
    }
)
