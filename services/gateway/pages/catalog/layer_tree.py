"""A model's layers as a tree of the scopes in their names, with the share of time of each. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.analysis import Table
from services.gateway.pages.results.cells import rows_of

_SCOPE = re.compile(r"[./]+")
_DEEPEST = 8
_OPEN_FROM = 0.2


@dataclass(slots=True)
class Scope:
    """A scope or a layer: its own time and that of what is inside, both of a query, in ns."""

    name: str
    own_ns: float = 0.0
    type: str = ""
    #: where the layer is chosen, '' for a scope
    address: str = ""
    inside: list["Scope"] = field(default_factory=list)
    share: float = 0.0

    @property
    def time_ns(self) -> float:
        """Its time with what is inside."""
        return self.own_ns + sum(scope.time_ns for scope in self.inside)

    @property
    def layers(self) -> int:
        """How many layers it has, itself among them if it is one."""
        return (1 if self.address else 0) + sum(scope.layers for scope in self.inside)

    @property
    def is_open(self) -> bool:
        """Whether much of the time is inside, so that it is shown at once."""
        return self.share >= _OPEN_FROM


@dataclass(frozen=True, slots=True)
class LayerTree:
    """The layers of a run of an evaluation, and how many were left out for want of room."""

    evaluation: str
    run: str
    scopes: Sequence[Scope]
    layers: int
    left_out: int


def layer_tree(evaluation: str, table: Table | None, total_rows: int) -> LayerTree | None:
    """Return the tree of the first run in the `table` of layers (A2) of an `evaluation`.

    `total_rows` is how many rows the whole table has. None where there are no layers.
    """
    rows = rows_of({"layers": table}, "layers") if table is not None else []
    answered = [row for row in rows if row.get("queries")]
    if not answered:
        return None
    run = answered[0]["run"]
    own = [row for row in answered if row["run"] == run]
    root = Scope("")
    by_path: dict[tuple[str, ...], Scope] = {(): root}
    for row in own:
        _add(by_path, row, f"/evaluations/{evaluation}/analyses/A2")
    scopes = [_joined(scope) for scope in root.inside]
    for scope in scopes:
        _share(scope, root.time_ns)
    return LayerTree(evaluation, str(run), scopes, len(own), max(total_rows - len(rows), 0))


def _add(by_path: dict[tuple[str, ...], Scope], row: Mapping[str, Any], page: str) -> None:
    """Add the layer of a `row` below the scopes of its name; `page` is where layers are chosen."""
    name = str(row["name"])
    *scopes, own = [part for part in _SCOPE.split(name, maxsplit=_DEEPEST) if part] or [name]
    place = by_path[()]
    for end, scope in enumerate(scopes, start=1):
        path = tuple(scopes[:end])
        # Layers run in order: a scope that comes again later is the same one.
        if path not in by_path:
            by_path[path] = Scope(scope)
            place.inside.append(by_path[path])
        place = by_path[path]
    number = row.get("node")
    address = page if number in (None, -1) else f"{page}?layer={number}"
    layer = Scope(own, float(row["time"] or 0.0), str(row.get("type") or ""), address)
    place.inside.append(layer)


def _joined(scope: Scope) -> Scope:
    """Return a scope without those that have a single scope inside and nothing else."""
    while len(scope.inside) == 1 and not scope.address:
        (inner,) = scope.inside
        scope = Scope(
            f"{scope.name}.{inner.name}", inner.own_ns, inner.type, inner.address, inner.inside
        )
    scope.inside = [_joined(inner) for inner in scope.inside]
    return scope


def _share(scope: Scope, whole_ns: float) -> None:
    scope.share = scope.time_ns / whole_ns if whole_ns else 0.0
    for inner in scope.inside:
        _share(inner, whole_ns)
