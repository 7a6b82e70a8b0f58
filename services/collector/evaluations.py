"""I/O: what the log says of evaluations, their starts remembered."""

from collections import OrderedDict

from mlscope.bus.bus import Bus
from schemas.subjects import decisions_of
from services.collector.errors import UnknownEvaluation
from services.collector.runs import Known, known_of

_REMEMBERED = 4096


class Evaluations:
    """Reads evaluations' decisions."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._starts: OrderedDict[str, int] = OrderedDict()

    async def known(self, evaluation: str) -> Known:
        """Return what the log says now. Raises what the bus raises."""
        recorded = await self._bus.read(decisions_of(evaluation))
        return known_of(each.fact for each in recorded)

    async def start_of(self, evaluation: str) -> int:
        """Return when an evaluation was requested, epoch ns: `ts` of its rows.

        Raises UnknownEvaluation, and what the bus raises.
        """
        if evaluation in self._starts:
            self._starts.move_to_end(evaluation)
            return self._starts[evaluation]
        start = (await self.known(evaluation)).requested_ns
        if start is None:
            raise UnknownEvaluation(evaluation)
        self._starts[evaluation] = start
        if len(self._starts) > _REMEMBERED:
            self._starts.popitem(last=False)
        return start
