"""Which evaluations have rows of batches that no backup has, from the batches stored recently.

Mutable, without I/O. The table `run` has an attempt only once it has ended. What is stored of a run
under way, and what comes after its end, is known from its batches and their places in the streams.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from mlscope.bus.records import Recorded
from mlscope.bus.streams import stream_of
from schemas.batch import Batch
from schemas.values.identity import run_key

_MOST_STRETCHES = 4_000
"""How many are remembered, each in 500 bytes: those of 1,300 runs at once. The runs of older ones
ended long ago.
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where in a stream the stored batches of one kind of an attempt are: its sequences."""

    evaluation: str
    stream: str
    #: 0 where earlier batches were stored before this collector started, or by another one
    first: int
    last: int


@dataclass(slots=True)
class StoredBatches:
    """The stored batches that may be in no backup, by attempt and kind."""

    _stretches: OrderedDict[tuple[int, str], Stretch] = field(default_factory=OrderedDict)
    #: the evaluation noted last: stretches share the text of its id
    _evaluation: str = ""

    def note(self, stored: Sequence[Recorded]) -> None:
        """Note batches that were `stored`."""
        for recorded in stored:
            batch, at = cast("Batch", recorded.fact), recorded.sequence
            key = (run_key(batch.evaluation, batch.run, batch.attempt), batch.entity)
            if batch.evaluation != self._evaluation:
                self._evaluation = batch.evaluation
            begun = Stretch(
                evaluation=self._evaluation,
                stream=stream_of(recorded.subject),
                first=0,
                last=at,
            )
            known = self._stretches.pop(key, begun)
            first = min(known.first, at) if batch.sequence else at
            self._stretches[key] = replace(known, first=first, last=max(known.last, at))
        while len(self._stretches) > _MOST_STRETCHES:
            self._stretches.popitem(last=False)

    def unsaved(
        self, saved: Mapping[str, int], left: Mapping[str, int]
    ) -> tuple[list[str], list[str]]:
        """Return the evaluations with batches that no backup has.

        A backup has all batches up to the sequences `saved`, by stream; up to `left`, messages left
        that no backup had. The second list has the evaluations with batches in neither.
        """
        unsaved, gone = set(), set()
        for stretch in self._stretches.values():
            first = max(stretch.first, saved.get(stretch.stream, 0) + 1)
            if first <= stretch.last:
                unsaved.add(stretch.evaluation)
                if first <= left.get(stretch.stream, 0):
                    gone.add(stretch.evaluation)
        return sorted(unsaved), sorted(gone)
