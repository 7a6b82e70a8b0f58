"""Facts to send: small ones of one evaluation, and a batch of a chosen size."""

from schemas.batch import TraceCaptured
from schemas.evaluation import EvaluationCancelled

E = "0123456789abcdef"


def a_fact(reason: str = "", evaluation: str = E) -> EvaluationCancelled:
    """Return a decision; `reason` tells facts apart."""
    return EvaluationCancelled(evaluation=evaluation, reason=reason)


def a_batch(sequence: int, size_bytes: int = 1000) -> TraceCaptured:
    """Return a trace batch of about that size."""
    return TraceCaptured(
        evaluation=E,
        run="r1",
        attempt=1,
        agent="a1",
        sequence=sequence,
        count=1,
        name_ids=(1,),
        name_texts=("predict",),
        span=bytes(size_bytes),
        parent=b"",
        level=b"",
        name=b"",
        start_ns=b"",
        duration_ns=b"",
        thread=b"",
        query=b"",
        block=b"",
    )
