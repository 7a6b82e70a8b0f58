"""Which evaluations have rows of batches that no backup has, from the batches stored recently.

Mutable, without I/O. The table `run` has an attempt only once it has ended. What is stored of a run
under way, and what comes after its end, is known from its batches and their places in the streams.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import cast, get_args

from mlscope.bus.records import Recorded
from mlscope.bus.streams import stream_of
from schemas.batch import Batch
from schemas.subjects import facts_of
from schemas.values.identity import run_key

_STREAMS = {kind.entity: stream_of(facts_of(kind)) for kind in get_args(Batch)}
"""The stream of each kind of batch."""
_KINDS = tuple(_STREAMS)
_MOST_ATTEMPTS = 1_300
"""How many are remembered, each in 350 bytes: older ones ended long ago."""


@dataclass(slots=True)
class AttemptBatches:
    """Where in the streams the stored batches of an attempt are. Mutable.

    `sequences` has the first and the last sequence of each kind in turn, int64 [2 kinds]. The last
    is 0 where none is stored, the first where earlier ones were stored before this collector
    started, or by another one.
    """

    evaluation: str
    sequences: "array[int]" = field(default_factory=lambda: array("q", (0, 0) * len(_KINDS)))

    def note(self, kind: str, at: int, *, is_first: bool) -> None:
        """Note a batch of a `kind` at a sequence of its stream; `is_first` of its attempt."""
        place = 2 * _KINDS.index(kind)
        first, last = self.sequences[place : place + 2]
        self.sequences[place] = at if is_first else min(first, at)
        self.sequences[place + 1] = max(last, at)


@dataclass(slots=True)
class StoredBatches:
    """The stored batches that may be in no backup, by attempt."""

    _attempts: OrderedDict[int, AttemptBatches] = field(default_factory=OrderedDict)

    def note(self, stored: Sequence[Recorded]) -> None:
        """Note batches that were `stored`."""
        for recorded in stored:
            batch = cast("Batch", recorded.fact)
            key = run_key(batch.evaluation, batch.run, batch.attempt)
            # The attempts of an evaluation share the text of its id.
            attempt = self._attempts.pop(key, None) or AttemptBatches(intern(batch.evaluation))
            attempt.note(batch.entity, recorded.sequence, is_first=not batch.sequence)
            self._attempts[key] = attempt
        while len(self._attempts) > _MOST_ATTEMPTS:
            self._attempts.popitem(last=False)

    def unsaved(
        self, saved: Mapping[str, int], left: Mapping[str, int]
    ) -> tuple[list[str], list[str]]:
        """Return the evaluations with batches that no backup has.

        A backup has all batches up to the sequences `saved`, by stream; up to `left`, messages left
        that no backup had. The second list has the evaluations with batches in neither.
        """
        unsaved, gone = set(), set()
        for attempt in self._attempts.values():
            pairs = zip(attempt.sequences[::2], attempt.sequences[1::2], strict=True)
            for stream, (first, last) in zip(_STREAMS.values(), pairs, strict=True):
                first_unsaved = max(first, saved.get(stream, 0) + 1)
                if first_unsaved <= last:
                    unsaved.add(attempt.evaluation)
                    if first_unsaved <= left.get(stream, 0):
                        gone.add(attempt.evaluation)
        return sorted(unsaved), sorted(gone)
