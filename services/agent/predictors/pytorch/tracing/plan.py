"""Derive the layers of an eager PyTorch model from the trace of one uncounted call.

A layer is a call of a module in which no other module was called. The operators between two such
calls are one row, named after the module that called them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import torch

from mlscope.tracing.layer_attributes import LayerAttributes
from services.agent.predictors import Layer
from services.agent.predictors.pytorch.tracing.probe import (
    ModelTrace,
    ModuleCall,
    Operator,
    memory_of,
    names_of,
    wrappable,
)

ROOT = -1
_MAX_OPERATORS_LISTED = 5

Span = tuple[int, int, int, int]
"""A module's number or `ROOT`, begin and end (CLOCK_MONOTONIC ns), and Python's thread id."""


@dataclass(frozen=True, slots=True)
class Row:
    """The name of a layer and the attributes of its spans, as JSON."""

    name: str
    attributes: bytes


@dataclass(slots=True)
class LayerPlan:
    """The layers of a model in execution order; turns the spans of a call into layers.

    `provider` is written into the layers' attributes.
    """

    model: torch.nn.Module
    provider: str
    #: the modules to time; an index is a module's number
    modules: list[torch.nn.Module] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    #: module numbers in the order of the uncounted call
    expected: list[int] = field(default_factory=list)
    #: rows between layers, by the index in `expected` that they precede
    between: dict[int, int] = field(default_factory=dict)
    #: the row of a module's nth call
    row_of_call: dict[tuple[int, int], int] = field(default_factory=dict)
    #: qualified names of modules, by id
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def times_root(self) -> bool:
        """Whether the model's own forward is timed too, for operators before and after layers."""
        return bool(self.between)

    @property
    def is_single_layer(self) -> bool:
        """Whether the model has no layer but itself."""
        return [module is self.model for module in self.modules] == [True]

    def name_of(self, module: torch.nn.Module) -> str:
        """Return the name of a module's layers: its qualified name, or the class of the root."""
        return next(iter(self.names.get(id(module), ())), "") or type(module).__name__

    def add_layer(self, call: ModuleCall, operators: Sequence[Operator]) -> None:
        """Add the row of a module's call, in which these operators ran."""
        names = self.names.get(id(call.module), ())
        shared = {"shared_as": list(names)} if len(names) > 1 else {}
        attributes = LayerAttributes(
            index=len(self.rows),
            type=type(call.module).__name__,
            shapes=call.shapes,
            input_shapes=call.input_shapes,
            provider=self.provider,
            **_work_of(operators, call.new_bytes),
            extra={"operators": _listed(operators), **shared},
        )
        self.rows.append(Row(self.name_of(call.module), attributes.text()))

    def add_between(self, trace: ModelTrace, operators: Sequence[Operator]) -> None:
        """Add the row of the operators before the next layer, if there are any in a module."""
        inside = [operator for operator in operators if operator.call >= 0]
        if not inside:
            return
        costliest = max(inside, key=lambda op: (op.flops or 0, op.bytes_read + op.bytes_written))
        attributes = LayerAttributes(
            index=len(self.rows),
            type=costliest.name,
            shapes=inside[-1].shapes,
            input_shapes=inside[0].input_shapes,
            provider=self.provider,
            **_work_of(inside, sum(operator.new_bytes for operator in inside)),
            extra={"operators": _listed(inside), "measured": "between layers"},
        )
        paths = [self.name_of(trace.calls[operator.call].module).split(".") for operator in inside]
        common = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
        parent = ".".join(parts[0] for parts in common) or type(self.model).__name__
        self.between[len(self.expected)] = len(self.rows)
        self.rows.append(
            Row(f"{parent}/{costliest.name.removeprefix('aten::')}", attributes.text())
        )

    def layers_of(
        self, spans: Sequence[Span], threads: Mapping[int, int]
    ) -> tuple[list[Layer], bool]:
        """Return the layers of one call, in order, and whether it ran as expected.

        It did where it ran the same modules as the uncounted call, in one thread; then the layers
        include the operators between modules. `spans`: those of the call; `threads`: native thread
        ids by Python's.
        """
        root = next((span for span in spans if span[0] == ROOT), None)
        outermost, numbers, thread_ends = list[Span](), list[int](), dict[int, int]()
        for span in sorted(spans, key=lambda span: span[1]):
            number, begin, end, thread = span
            if number != ROOT and begin >= thread_ends.get(thread, 0):
                thread_ends[thread] = end
                outermost.append(span)
                numbers.append(number)
        span_threads = {span[3] for span in spans}
        if numbers == self.expected and len(span_threads) <= 1:
            return self._expected_layers(outermost, root, threads), True
        return self._module_layers(outermost, threads), False

    def _expected_layers(
        self, spans: Sequence[Span], root: Span | None, threads: Mapping[int, int]
    ) -> list[Layer]:
        """Return the layers of a call that ran as expected, and the rows between them."""
        layers, counts = list[Layer](), Counter[int]()
        previous_end = root[1] if root else 0
        root_end = [(ROOT, root[2], root[2], root[3])] if root else []
        for position, (number, begin, end, thread) in enumerate([*spans, *root_end]):
            native = threads.get(thread, thread & 0x7FFFFFFF)
            if root and position in self.between:
                row = self.rows[self.between[position]]
                gap_ns = begin - previous_end
                layers.append(Layer(row.name, previous_end, gap_ns, native, row.attributes))
            if number != ROOT:
                row = self.rows[self.row_of_call[number, counts[number]]]
                layers.append(Layer(row.name, begin, end - begin, native, row.attributes))
                counts[number] += 1
            previous_end = end
        return layers

    def _module_layers(self, spans: Sequence[Span], threads: Mapping[int, int]) -> list[Layer]:
        """Return the layers of a call that did not run as expected: its modules alone."""
        layers, counts = list[Layer](), Counter[int]()
        for number, begin, end, thread in spans:
            key = (number, counts[number])
            counts[number] += 1
            if key not in self.row_of_call:
                self.row_of_call[key] = len(self.rows)
                module = self.modules[number]
                kind = type(module).__name__
                attributes = LayerAttributes(len(self.rows), kind, provider=self.provider)
                self.rows.append(Row(self.name_of(module), attributes.text()))
            row = self.rows[self.row_of_call[key]]
            native = threads.get(thread, thread & 0x7FFFFFFF)
            layers.append(Layer(row.name, begin, end - begin, native, row.attributes))
        return layers


def plan_of(model: torch.nn.Module, trace: ModelTrace, provider: str) -> LayerPlan:
    """Return the layers of a model.

    `trace` is that of one uncounted call; `provider` is written into the layers' attributes.
    """
    plan = LayerPlan(model, provider, names=names_of(model))
    numbers: dict[int, int] = {}
    counts = Counter[int]()
    previous_last = 0
    for call in (call for call in trace.calls if not call.is_container):
        plan.add_between(trace, trace.operators[previous_last : call.first])
        number = numbers.setdefault(id(call.module), len(plan.modules))
        if number == len(plan.modules):
            plan.modules.append(call.module)
        plan.row_of_call[number, counts[number]] = len(plan.rows)
        counts[number] += 1
        plan.expected.append(number)
        plan.add_layer(call, trace.operators[call.first : call.last])
        previous_last = call.last
    plan.add_between(trace, trace.operators[previous_last:])
    # Leaf modules that did not run are timed too: they may run in another call.
    executed = {id(call.module) for call in trace.calls}
    executed |= {id(part) for module in plan.modules for part in module.modules()}
    for module in model.modules():
        is_leaf = not any(True for _ in module.children())
        if is_leaf and wrappable(module) and id(module) not in executed:
            plan.modules.append(module)
    return plan


def _work_of(operators: Sequence[Operator], new_bytes: int) -> dict[str, Any]:
    """Return memory, FLOPs and bytes of operators together; FLOPs are None where any are unknown.

    `new_bytes`: the bytes of their new outputs, used where allocations are unknown.
    """
    memory_bytes, memory_kind = memory_of(operators, new_bytes)
    flops = [operator.flops for operator in operators]
    return {
        "memory_bytes": memory_bytes,
        "memory_kind": memory_kind,
        "flops": None if None in flops else sum(count or 0 for count in flops),
        "bytes_read": sum(operator.bytes_read for operator in operators),
        "bytes_written": sum(operator.bytes_written for operator in operators),
    }


def _listed(operators: Sequence[Operator]) -> list[str]:
    """Return the names of the first different operators, with their counts."""
    counts = Counter(operator.name for operator in operators)
    listed = [
        name if count == 1 else f"{name} x{count}"
        for name, count in list(counts.items())[:_MAX_OPERATORS_LISTED]
    ]
    return [*listed, "…"] if len(counts) > _MAX_OPERATORS_LISTED else listed
