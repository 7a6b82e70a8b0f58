"""From what one uncounted call showed to the layers of an eager PyTorch model. Pure.

A layer is a module's call in which no other module was called. Operators between two such calls
are one row, under the module they were called in.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import torch

from services.agent.predictors import Layer
from services.agent.predictors.natures import Nature
from services.agent.predictors.pytorch_probe import (
    ModuleCall,
    Operator,
    Seen,
    memory_of,
    names_of,
    wrappable,
)

ROOT = -1
_MOST_NAMED = 5

Span = tuple[int, int, int, int]
"""A module's number or `ROOT`, begin and end (monotonic ns), Python's thread id."""


@dataclass(frozen=True, slots=True)
class Row:
    """A layer as it is shown: its name and its spans' attributes."""

    name: str
    attributes: bytes


@dataclass(slots=True)
class LayerPlan:
    """The layers of a model in execution order, and how a call's spans become them."""

    model: torch.nn.Module
    provider: str
    #: the modules to time, by their number
    modules: list[torch.nn.Module] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    #: module numbers in the order of the uncounted call
    expected: list[int] = field(default_factory=list)
    #: rows between layers, by the place in `expected` that they come before
    between: dict[int, int] = field(default_factory=dict)
    #: the row of a module's nth call
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    _names: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def times_root(self) -> bool:
        """Whether the model's own forward is timed too, to know where it begins and ends."""
        return bool(self.between)

    @property
    def is_whole(self) -> bool:
        """Whether the model is one layer: nothing of it has a module of its own."""
        return [each is self.model for each in self.modules] == [True]

    def name_of(self, module: torch.nn.Module) -> str:
        """Return the name of a module's layers: its qualified name, or what the root is."""
        return next(iter(self._names.get(id(module), ())), "") or type(module).__name__

    def layers_of(
        self, spans: Sequence[Span], threads: Mapping[int, int]
    ) -> tuple[list[Layer], bool]:
        """Return the layers of one call, in order, and whether all of it is known.

        That is where it went the way of the uncounted call, in one thread. `threads` are native
        ids by Python's.
        """
        root = next((span for span in spans if span[0] == ROOT), None)
        timed = list(_outermost(sorted((s for s in spans if s[0] != ROOT), key=lambda s: s[1])))
        if [span[0] for span in timed] == self.expected and len({s[3] for s in spans}) <= 1:
            return list(self._as_expected(timed, root, threads)), True
        return list(self._by_occurrence(timed, threads)), False

    def _as_expected(
        self, timed: Sequence[Span], root: Span | None, threads: Mapping[int, int]
    ) -> Iterator[Layer]:
        ended, counts = root[1] if root else 0, Counter[int]()
        for place, span in enumerate(
            [*timed, (ROOT, root[2], root[2], root[3])] if root else timed
        ):
            module, began, end, thread = span
            native = threads.get(thread, thread & 0x7FFFFFFF)
            if root and place in self.between:
                row = self.rows[self.between[place]]
                yield Layer(row.name, ended, began - ended, native, row.attributes)
            if module != ROOT:
                row = self.rows[self.known[module, counts[module]]]
                yield Layer(row.name, began, end - began, native, row.attributes)
                counts[module] += 1
            ended = end

    def _by_occurrence(self, timed: Sequence[Span], threads: Mapping[int, int]) -> Iterator[Layer]:
        """Yield the layers of a call that went another way than the uncounted one."""
        counts = Counter[int]()
        for module, began, end, thread in timed:
            key = (module, counts[module])
            counts[module] += 1
            if key not in self.known:
                self._add_unseen(key)
            row = self.rows[self.known[key]]
            native = threads.get(thread, thread & 0x7FFFFFFF)
            yield Layer(row.name, began, end - began, native, row.attributes)

    def _add_unseen(self, key: tuple[int, int]) -> None:
        module = self.modules[key[0]]
        nature = Nature(len(self.rows), type(module).__name__, provider=self.provider)
        self.known[key] = len(self.rows)
        self.rows.append(Row(self.name_of(module), nature.text()))


def plan_of(model: torch.nn.Module, seen: Seen, provider: str) -> LayerPlan:
    """Return a model's layers from one uncounted call."""
    plan = LayerPlan(model, provider, _names=names_of(model))
    numbers: dict[int, int] = {}
    counts = Counter[int]()
    done = 0
    for call in (each for each in seen.calls if not each.is_container):
        _add_between(plan, seen, seen.operators[done : call.first])
        number = numbers.setdefault(id(call.module), len(plan.modules))
        if number == len(plan.modules):
            plan.modules.append(call.module)
        plan.known[number, counts[number]] = len(plan.rows)
        counts[number] += 1
        plan.expected.append(number)
        operators = seen.operators[call.first : call.last]
        plan.rows.append(_layer_row(plan, call, operators))
        done = call.last
    _add_between(plan, seen, seen.operators[done:])
    _add_idle(plan, seen)
    return plan


def _layer_row(plan: LayerPlan, call: ModuleCall, operators: Sequence[Operator]) -> Row:
    names = plan._names.get(id(call.module), ())  # noqa: SLF001
    memory_bytes, memory_kind = memory_of(operators, call.new_bytes)
    more: dict[str, Any] = {"operators": _listed(operators)}
    if len(names) > 1:
        more["shared_as"] = list(names)
    nature = Nature(
        index=len(plan.rows),
        type=type(call.module).__name__,
        shapes=call.shapes,
        input_shapes=call.input_shapes,
        provider=plan.provider,
        memory_bytes=memory_bytes,
        memory_kind=memory_kind,
        flops=_flops_in(operators),
        bytes_read=sum(each.bytes_read for each in operators),
        bytes_written=sum(each.bytes_written for each in operators),
        more=more,
    )
    return Row(plan.name_of(call.module), nature.text())


def _flops_in(operators: Sequence[Operator]) -> int | None:
    """Return what operators count together; None where one of them is unknown."""
    counts = [each.flops for each in operators]
    return None if None in counts else sum(each or 0 for each in counts)


def _add_between(plan: LayerPlan, seen: Seen, operators: Sequence[Operator]) -> None:
    """Add the row of what runs before the next layer, if anything does."""
    inside = [each for each in operators if each.call >= 0]
    if not inside:
        return
    memory_bytes, memory_kind = memory_of(inside, sum(each.new_bytes for each in inside))
    costly = max(inside, key=lambda each: (each.flops or 0, each.bytes_read + each.bytes_written))
    nature = Nature(
        index=len(plan.rows),
        type=costly.name,
        shapes=inside[-1].shapes,
        input_shapes=inside[0].input_shapes,
        provider=plan.provider,
        memory_bytes=memory_bytes,
        memory_kind=memory_kind,
        flops=_flops_in(inside),
        bytes_read=sum(each.bytes_read for each in inside),
        bytes_written=sum(each.bytes_written for each in inside),
        more={"operators": _listed(inside), "measured": "between layers"},
    )
    parents = {plan.name_of(seen.calls[each.call].module) for each in inside}
    name = f"{_common(plan, parents)}/{costly.name.removeprefix('aten::')}"
    plan.between[len(plan.expected)] = len(plan.rows)
    plan.rows.append(Row(name, nature.text()))


def _add_idle(plan: LayerPlan, seen: Seen) -> None:
    """Time the leaf modules that did not run, too."""
    ran = {id(call.module) for call in seen.calls}
    below = {id(part) for module in plan.modules for part in module.modules()}
    for module in plan.model.modules():
        is_leaf = not any(True for _ in module.children())
        if is_leaf and wrappable(module) and id(module) not in ran | below:
            plan.modules.append(module)


def _common(plan: LayerPlan, names: set[str]) -> str:
    """Return the module that several are in: their names' common parts."""
    paths = [name.split(".") for name in names]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return ".".join(parts[0] for parts in same) or type(plan.model).__name__


def _listed(operators: Sequence[Operator]) -> list[str]:
    """Return the operators' names, each run of the same once, with its length."""
    names = [each.name for each in operators]
    return [
        name if count == 1 else f"{name} x{count}"
        for name, count in list(Counter(names).items())[:_MOST_NAMED]
    ] + (["…"] if len(set(names)) > _MOST_NAMED else [])


def _outermost(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans that lie in no other of their thread; they come by their begin."""
    ends: dict[int, int] = {}
    for span in spans:
        if span[1] >= ends.get(span[3], 0):
            ends[span[3]] = span[2]
            yield span
