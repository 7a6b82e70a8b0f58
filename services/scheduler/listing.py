"""Evaluations in the order they were requested, by model and state. Mutable, without I/O.

Kept sorted for each model and state that can be asked for, so that a list of the newest costs what
is in it, however many evaluations there are.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import islice, product

_Place = tuple[int, str]
_Filter = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """What an evaluation is listed by; `requested_ns` never changes."""

    requested_ns: int
    model: str
    state: str


@dataclass(slots=True)
class Listing:
    """Who is listed where."""

    _rows: dict[str, Row] = field(default_factory=dict)
    _orders: dict[_Filter, list[_Place]] = field(default_factory=dict)

    def put(self, evaluation: str, row: Row) -> None:
        """List an evaluation, or list it anew."""
        if self._rows.get(evaluation) == row:
            return
        self.drop(evaluation)
        self._rows[evaluation] = row
        for each in _filters(row):
            insort(self._orders.setdefault(each, []), (row.requested_ns, evaluation))

    def drop(self, evaluation: str) -> None:
        """List an evaluation no more."""
        row = self._rows.pop(evaluation, None)
        if row is None:
            return
        for each in _filters(row):
            order = self._orders[each]
            del order[bisect_left(order, (row.requested_ns, evaluation))]
            if not order:
                del self._orders[each]

    def newest(self, limit: int, model: str = "", state: str = "") -> list[str]:
        """Return evaluations, newest first, of one model and state when given.

        A model is meant by its name, or as requests name it.
        """
        order = self._orders.get((model, state), [])
        return [evaluation for _, evaluation in islice(reversed(order), limit)]


def _filters(row: Row) -> set[_Filter]:
    models = ("", row.model, row.model.partition(":")[0])
    return set(product(models, ("", row.state)))
