"""Scoring of answers against the ground truth: the metrics of each kind of answer.

The kind of the answers and the dataset's ground truth decide on the metrics, not the name of the
task; only for texts does the task tell answers to questions from transcripts. The formulas are
those of `mlscope.accuracy`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.classes import classes
from services.analyzer.scoring.judgement import Judge, Judgement
from services.analyzer.scoring.pictures import pictures, pixels
from services.analyzer.scoring.shapes import shapes
from services.analyzer.scoring.texts import scores, texts

__all__ = ["Judgement", "judge"]


def judge(answers: Sequence[Prediction], scoring_context: ScoringContext) -> list[Judgement]:
    """Return the value of each metric that fits the answers; none without ground truth.

    `scoring_context` is what the plan says of the model and its dataset. Raises AccuracyError.
    """
    with_truth = [answer for answer in answers if answer.truth or answer.judged]
    # Of kinds that are equally frequent, the first counts.
    kinds = Counter(answer.kind for answer in with_truth if answer.kind).most_common(1)
    judge_of = _JUDGES.get(kinds[0][0]) if kinds else None
    if judge_of is None:
        return []
    return judge_of(with_truth, scoring_context)


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
