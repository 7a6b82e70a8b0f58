"""The summaries of ended evaluations, encoded. Mutable, without I/O.

Thousands of them stay in memory and few are ever requested. Encoded, a summary takes a fifth of
the memory of its objects.
"""

from collections.abc import Iterator, MutableMapping

from schemas.encoding.bodies import decode_body, encode_body
from schemas.status import EvaluationStatus


class EndedEvaluations(MutableMapping[str, EvaluationStatus]):
    """The summary of each ended evaluation by its id, in the order in which they ended."""

    def __init__(self) -> None:
        """Begin without any."""
        self._bodies: dict[str, bytes] = {}

    def __getitem__(self, evaluation: str) -> EvaluationStatus:
        return decode_body(EvaluationStatus, self._bodies[evaluation])

    def __setitem__(self, evaluation: str, status: EvaluationStatus) -> None:
        self._bodies[evaluation] = encode_body(status)

    def __delitem__(self, evaluation: str) -> None:
        del self._bodies[evaluation]

    def __contains__(self, evaluation: object) -> bool:
        return evaluation in self._bodies

    def __iter__(self) -> Iterator[str]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    def forget_first(self) -> str:
        """Forget the evaluation that ended first, and return its id."""
        evaluation = next(iter(self._bodies))
        del self._bodies[evaluation]
        return evaluation
