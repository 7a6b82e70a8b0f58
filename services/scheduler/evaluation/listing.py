"""Evaluations in the order of their requests, by model and state. Mutable, without I/O.

There is a sorted list for each model and state that can be asked for, so that a list of the newest
costs what is in it, however many evaluations there are.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice, product

_OrderKey = tuple[str, str]
"""Model in lower case and state; '' is any."""


@dataclass(frozen=True, slots=True)
class Row:
    """What an evaluation is listed by; `requested_ns` (epoch) never changes.

    Fields of the plan are '' before it is planned, and `labels` are the request's.
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
    """The listed evaluations."""

    _rows: dict[str, Row] = field(default_factory=dict)
    _orders: dict[_OrderKey, list[tuple[int, str]]] = field(default_factory=dict)

    def put(self, evaluation: str, row: Row) -> None:
        """List an evaluation, in place of its former row."""
        if self._rows.get(evaluation) == row:
            return
        self.drop(evaluation)
        self._rows[evaluation] = row
        for key in _order_keys(row):
            insort(self._orders.setdefault(key, []), (row.requested_ns, evaluation))

    def drop(self, evaluation: str) -> None:
        """Remove an evaluation from the list."""
        row = self._rows.pop(evaluation, None)
        if row is None:
            return
        for key in _order_keys(row):
            order = self._orders[key]
            del order[bisect_left(order, (row.requested_ns, evaluation))]
            if not order:
                del self._orders[key]

    def newest(
        self,
        limit: int,
        model: str = "",
        state: str = "",
        filters: Iterable[Callable[[Row], bool]] = (),
    ) -> list[str]:
        """Return at most `limit` evaluations that pass all `filters`, newest first.

        `model` is a model's name, or the name as requests give it, in any case; '' is any, as for
        `state`. Rows are checked until there are enough, so rows that fail cost time as well.
        """
        checks = tuple(filters)
        order = reversed(self._orders.get((model.lower(), state), []))
        passing = (
            evaluation
            for _, evaluation in order
            if all(check(self._rows[evaluation]) for check in checks)
        )
        return list(islice(passing, limit))


def _order_keys(row: Row) -> set[_OrderKey]:
    model = row.model.lower()
    models = ("", model, model.partition(":")[0])
    return set(product(models, ("", row.state)))
