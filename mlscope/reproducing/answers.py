"""Compares the answers in a reference log with those of a repeated run. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlscope.reproducing.difference import IDENTICAL, NOT_COMPARED, Difference
from mlscope.reproducing.logs import MOST_ANSWERS
from schemas.reference import ReferenceAnswer, ReferenceLog, ReferenceRun


def values_by_path(value: Any, path: str = "") -> dict[str, Any]:
    """Return the plain values of nested maps and lists by path, without empty ones."""
    if isinstance(value, Mapping):
        items = ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        items = ((str(number), item) for number, item in enumerate(value))
    else:
        return {path: value} if value not in ("", None) else {}
    by_path: dict[str, Any] = {}
    for name, item in items:
        by_path |= values_by_path(item, f"{path}.{name}" if path else name)
    return by_path


def compare_answers(
    before: ReferenceLog, now: ReferenceLog, old: ReferenceRun, new: ReferenceRun
) -> Difference:
    """Compare the answers of the run `old` in the log `before` with those of `new` in `now`.

    A note says how many samples were answered but are not in the logs.
    """
    answers_before, answers_now = (
        {answer.sample: answer for answer in log.answers if answer.run == run.run}
        for log, run in ((before, old), (now, new))
    )
    comparison = _compare_predictions(old, new, answers_before, answers_now)
    unkept = _unkept_note(before, old, len(answers_before)) or _unkept_note(
        now, new, len(answers_now)
    )
    return replace(comparison, note="; ".join(filter(None, (comparison.note, unkept))))


def _compare_predictions(
    old: ReferenceRun,
    new: ReferenceRun,
    before: Mapping[int, ReferenceAnswer],
    now: Mapping[int, ReferenceAnswer],
) -> Difference:
    """Compare the answers of two runs; `before` and `now` are those that the logs hold, by sample.

    The digests cover all answers, so they decide whether the runs are the same.
    """
    digests = (old.predictions_digest[:16] or "none", new.predictions_digest[:16] or "none")
    comparison = Difference("predictions", old.run, "answers", *digests)
    if "none" in digests:
        run = "either run" if digests[0] == digests[1] else "one run"
        note = f"{NOT_COMPARED}: {run} kept no answers"
        return replace(comparison, note=note, is_compared=False)
    if old.predictions_digest == new.predictions_digest:
        note = f"{IDENTICAL}, {len(before)} samples"
        return replace(comparison, note=note, is_same=True)
    common = sorted(before.keys() & now.keys())
    changed = [sample for sample in common if before[sample].features != now[sample].features]
    largest, relabelled = 0.0, 0
    for sample in changed:
        distance, is_relabelled = _feature_distance(
            values_by_path(before[sample].features), values_by_path(now[sample].features)
        )
        largest, relabelled = max(largest, distance), relabelled + is_relabelled
    note = f"{len(changed)} of {len(common)} samples differ, numbers by at most {largest:.3g}"
    if relabelled:
        note += f", {relabelled} with other labels or sizes"
    if len(common) < max(len(before), len(now)):
        note += f"; {len(before)} samples then, {len(now)} now"
    return replace(comparison, note=note)


def _feature_distance(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[float, bool]:
    """Return the largest difference of numbers, and whether anything else differs."""
    largest, is_other_text = 0.0, before.keys() != now.keys()
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(old, float) and isinstance(new, int | float):
            largest = max(largest, abs(old - new))
        else:
            is_other_text = is_other_text or old != new
    return largest, is_other_text


def _unkept_note(log: ReferenceLog, run: ReferenceRun, kept_answers: int) -> str:
    """Return a note on samples that were answered beyond the limit of kept answers; '' for none.

    A run may use a sample several times, so without the size of the dataset this is an upper bound.
    """
    limit_reached = kept_answers >= log.request.outputs or len(log.answers) >= MOST_ANSWERS
    if not kept_answers or not limit_reached:
        return ""
    dataset = log.subject.dataset
    size = len(dataset.samples) or (dataset.synthetic.samples if dataset.synthetic else 0)
    answered = run.answered * run.batch_size
    unkept = min(answered, size or answered) - kept_answers
    if unkept <= 0:
        return ""
    return f"up to {unkept} more samples were answered, but not kept and {NOT_COMPARED}"
