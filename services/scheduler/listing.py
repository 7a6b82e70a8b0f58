"""Evaluations in the order they were requested, by model and state. Mutable, without I/O.

Kept sorted for each model and state that can be asked for, so that a list of the newest costs what
is in it, however many evaluations there are.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, product

_Place = tuple[int, str]
_Filter = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """What an evaluation is listed by; `requested_ns` never changes.

    What is planned is '' before it is, and `labels` are the request's.
    """

    requested_ns: int
    model: str
    state: str
    version: str = ""
    framework: str = ""
    framework_version: str = ""
    device: str = ""
    agents: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()


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

    def newest(
        self,
        limit: int,
        model: str = "",
        state: str = "",
        checks: Iterable[Callable[[Row], bool]] = (),
    ) -> list[str]:
        """Return evaluations, newest first, of one model and state when given.

        A model is meant by its name, or as requests name it, in any case. `checks` are asked of
        each in turn until there are `limit`, so they cost what they refuse as well.
        """
        places = reversed(self._orders.get((model.lower(), state), []))
        order: Iterator[str] = (evaluation for _, evaluation in places)
        for check in checks:
            order = self._passing(order, check)
        return list(islice(order, limit))

    def _passing(self, order: Iterable[str], check: Callable[[Row], bool]) -> Iterator[str]:
        return (evaluation for evaluation in order if check(self._rows[evaluation]))


def _filters(row: Row) -> set[_Filter]:
    model = row.model.lower()
    models = ("", model, model.partition(":")[0])
    return set(product(models, ("", row.state)))
