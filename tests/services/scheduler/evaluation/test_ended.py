"""Summaries of ended evaluations: as they were, and the first to end is the first to go."""

from schemas.encoding.bodies import encode_body
from schemas.status import EvaluationStatus
from services.scheduler.evaluation.ended import EndedEvaluations


def status(evaluation: str) -> EvaluationStatus:
    """Return the summary of an evaluation."""
    return EvaluationStatus(
        evaluation=evaluation,
        state="analyzed",
        model="identity:1.0.0",
        requested_ns=7,
        labels={"ü": "x"},
        agents=("a1",),
        tables=("latency",),
    )


def test_a_summary_is_read_as_it_was_written() -> None:
    ended = EndedEvaluations()
    for name in ("e2", "e1"):
        ended[name] = status(name)
    assert (ended["e1"], ended.get("e9"), "e2" in ended) == (status("e1"), None, True)
    assert list(ended) == ["e2", "e1"]


def test_alike_summaries_take_little_memory() -> None:
    ended, loads = EndedEvaluations(), tuple(f"table-{number}" for number in range(100))
    for number in range(50):
        ended[f"e{number}"] = status(f"e{number}").model_copy(update={"tables": loads})
    assert len(encode_body(ended["e7"])) > 1000
    assert ended.size_bytes < 50 * 100
    assert ended["e49"].tables == loads


def test_what_ended_first_is_forgotten_first() -> None:
    ended = EndedEvaluations()
    for name in ("e2", "e1"):
        ended[name] = status(name)
    assert (ended.forget_first(), list(ended)) == ("e2", ["e1"])
