"""Evaluations in the order of their requests, by model and state. Mutable, without I/O.

There is a sorted list for each model and state that can be asked for, with and without predictions,
so that a list of one model costs what there is of it, however many evaluations there are.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from schemas.request import ListOrder

_OrderKey = tuple[str, str, bool]
"""Model in lower case and state ('' is any), and whether predictions are listed too."""


@dataclass(frozen=True, slots=True)
class Row:
    """What an evaluation is listed by; `requested_ns` (epoch) never changes.

    Fields of the plan are '' before it is planned, and `labels` are the request's. Thousands of
    rows stay in memory, hence the tuples: a small set takes four times as much.
    """

    requested_ns: int
    model: str
    state: str
    version: str = ""
    framework: str = ""
    framework_version: str = ""
    device: str = ""
    #: sorted, each once
    agents: tuple[str, ...] = ()
    #: name and value, sorted
    labels: tuple[tuple[str, str], ...] = ()
    requested_by: str = ""
    is_private: bool = False
    #: whether only answers to files were asked for
    is_prediction: bool = False
    #: the best of all loads, None before the analysis
    samples_per_s: float | None = None
    latency_ns: float | None = None
    #: whether a load's run has a caveat about noise, None before the analysis
    is_noisy: bool | None = None
    #: name and version of each agent's framework, where the plan has several builds
    further_frameworks: tuple[tuple[str, str], ...] = ()
    #: what a search looks at, in lower case
    text: str = ""


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
        position = (row.requested_ns, evaluation)
        for key in _order_keys(row):
            insort(self._orders.setdefault(key, []), position)

    def change(self, evaluation: str, change: Callable[[Row], Row]) -> None:
        """List an evaluation by what `change` makes of its row, if it has one."""
        row = self._rows.get(evaluation)
        if row is not None:
            self.put(evaluation, change(row))

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

    def matching(
        self,
        model: str = "",
        state: str = "",
        filters: Iterable[Callable[[Row], bool]] = (),
        order: ListOrder = "newest",
        *,
        predictions: bool = True,
    ) -> list[str]:
        """Return all evaluations that pass all `filters`, in an `order`.

        `model` is a model's name, or the name as requests give it, in any case; '' is any, as for
        `state`. Without `predictions` those that only answered files are left out. The cost is a
        few microseconds for each evaluation of that model and state.
        """
        checks = tuple(filters)
        key = (model.lower(), state, predictions)
        names = [name for _, name in reversed(self._orders.get(key, []))]
        if checks:
            names = [name for name in names if all(check(self._rows[name]) for check in checks)]
        if order == "oldest":
            return names[::-1]
        if sort_key := _SORT_KEYS.get(order):
            names.sort(key=lambda name: sort_key(self._rows[name]))
        return names


def _figure_key(figure: float | None, sign: int) -> tuple[bool, float]:
    return figure is None, sign * (figure or 0.0)


_SORT_KEYS: Mapping[str, Callable[[Row], Any]] = MappingProxyType(
    {
        "model": lambda row: (row.model.lower(), row.version),
        "state": lambda row: row.state,
        "throughput": lambda row: _figure_key(row.samples_per_s, -1),
        "latency": lambda row: _figure_key(row.latency_ns, 1),
        "noise": lambda row: (row.is_noisy is None, row.is_noisy),
    }
)
"""Sort keys of orders other than by time; sorting is stable, so equal rows stay newest first."""


def _order_keys(row: Row) -> set[_OrderKey]:
    model = row.model.lower()
    models = ("", model, model.partition(":")[0])
    return set(product(models, ("", row.state), {True, row.is_prediction}))
