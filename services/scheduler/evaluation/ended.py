"""The summaries of ended evaluations, compressed. Mutable, without I/O.

Thousands of them stay in memory and few are ever requested. Encoded, a summary takes a fifth of
the memory of its objects; compressed, it has little more than what differs from the first one.
"""

import zlib
from collections.abc import Iterator, MutableMapping

from schemas.encoding.bodies import decode_body, encode_body
from schemas.status import EvaluationStatus

_EXAMPLE_BYTES = 32 * 1024
"""The most of an example that deflate makes use of."""


class EndedEvaluations(MutableMapping[str, EvaluationStatus]):
    """The summary of each ended evaluation by its id, in the order in which they ended."""

    def __init__(self) -> None:
        """Begin without any."""
        self._packed: dict[str, bytes] = {}
        #: the first summary, encoded; the others are packed by what they share with it
        self._example = b""

    @property
    def size_bytes(self) -> int:
        """The bytes of all summaries, without their ids."""
        return sum(map(len, self._packed.values()))

    def __getitem__(self, evaluation: str) -> EvaluationStatus:
        unpacking = zlib.decompressobj(zdict=self._example)
        return decode_body(EvaluationStatus, unpacking.decompress(self._packed[evaluation]))

    def __setitem__(self, evaluation: str, status: EvaluationStatus) -> None:
        body = encode_body(status)
        self._example = self._example or body[-_EXAMPLE_BYTES:]
        packing = zlib.compressobj(zdict=self._example)
        self._packed[evaluation] = packing.compress(body) + packing.flush()

    def __delitem__(self, evaluation: str) -> None:
        del self._packed[evaluation]

    def __contains__(self, evaluation: object) -> bool:
        return evaluation in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def forget_first(self) -> str:
        """Forget the evaluation that ended first, and return its id."""
        evaluation = next(iter(self._packed))
        del self._packed[evaluation]
        return evaluation
