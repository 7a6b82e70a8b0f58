"""Trace one uncounted call of a PyTorch model: the modules that run, and their operators.

It is a real call under a dispatch mode, not one with fake tensors, so it also works for models
whose shapes depend on data. No timed call and no compiled model runs under the dispatch mode.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mlscope.tracing.layer_attributes import spared_bytes
from services.agent.predictors.pytorch.flops import (
    has_formula,
    operator_flops,
    packed_flops,
    packed_in,
)
from services.agent.predictors.pytorch.memory import Allocations

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator that the model called, including those that it called in turn."""

    name: str
    #: index in `ModelTrace.calls` of the innermost module call around it; -1 outside of all
    call: int
    input_shapes: tuple[Shape, ...]
    shapes: tuple[Shape, ...]
    #: None where a product in it has no formula
    flops: int | None
    bytes_read: int
    bytes_written: int
    #: bytes of outputs that share no memory with its inputs
    new_bytes: int
    #: bytes that it allocated, including those that it freed again; None where unknown
    allocated_bytes: int | None = None


@dataclass(slots=True)
class ModuleCall:
    """One call of a module's forward."""

    module: torch.nn.Module
    input_shapes: tuple[Shape, ...]
    #: number of operators before it began, and before it ended
    first: int
    last: int = 0
    shapes: tuple[Shape, ...] = ()
    #: bytes of outputs that share no memory with its inputs
    new_bytes: int = 0
    #: whether modules were called in it
    is_container: bool = False


@dataclass(slots=True)
class ModelTrace:
    """The module calls of one call of a model, by their start, and its operators in order."""

    calls: list[ModuleCall] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)


def probe(model: Any, call: Callable[[], Any]) -> ModelTrace:
    """Return the trace of one `call` of a `model`. Raises what the model raises."""
    tracer = _Tracer()
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    with tracer.allocations.watching():
        undo_functions = [
            wrap(module, tracer.traced(module, module.forward))
            for module in modules
            if wrappable(module)
        ]
        try:
            with tracer:
                call()
        finally:
            for undo in reversed(undo_functions):
                undo()
    trace = tracer.trace
    trace.operators = [
        replace(operator, allocated_bytes=tracer.allocations.within(number))
        for number, operator in enumerate(trace.operators)
    ]
    return trace


def memory_of(operators: Sequence[Operator], output_bytes: int) -> tuple[int, str]:
    """Return the bytes that operators allocate, and "measured"; or `output_bytes`, and "outputs".

    The latter where any operator's allocations are unknown.
    """
    allocated = [op.allocated_bytes for op in operators if op.allocated_bytes is not None]
    if len(allocated) < len(operators):
        return output_bytes, "outputs"
    return sum(allocated), "measured"


def wrap(module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[[], None]:
    """Replace a module's `forward`, and return a function that restores it.

    Only the instance is changed. Hooks are not used, as they make PyTorch leave fast paths.
    """
    own = vars(module)
    before = own.get("forward")
    own["forward"] = forward

    def undo() -> None:
        if before is None:
            own.pop("forward", None)
        else:
            own["forward"] = before

    return undo


def wrappable(module: Any) -> bool:
    """Say whether a module's forward is a Python attribute that can be replaced."""
    return isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule)


def names_of(model: torch.nn.Module) -> Mapping[int, Sequence[str]]:
    """Return every qualified name of each module, by id; a module used twice has two."""
    names: dict[int, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(id(module), []).append(name)
    return names


def shapes_in(value: Any) -> tuple[Shape, ...]:
    """Return the shapes of all tensors in arguments or results."""
    return tuple(tuple(tensor.shape) for tensor in tensors_in(value))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return all tensors in arguments or results."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class _Tracer(TorchDispatchMode):
    """Records module calls and operators of the thread that enters it."""

    def __init__(self) -> None:
        super().__init__()
        self.trace = ModelTrace()
        self.allocations = Allocations()
        #: indices of the module calls that have not ended, from outside in
        self._open_calls: list[int] = []
        #: operators that are running, each called by the one before
        self._depth = 0
        self._flops: int | None = 0
        self._packed: Sequence[torch.Tensor] = ()
        self._thread = threading.get_ident()

    def traced(self, module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `module`'s forward that records its calls."""

        def traced_forward(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return forward(*args, **kwargs)
            if self._open_calls:
                self.trace.calls[self._open_calls[-1]].is_container = True
            self._open_calls.append(len(self.trace.calls))
            call = ModuleCall(module, shapes_in((args, kwargs)), len(self.trace.operators))
            self.trace.calls.append(call)
            try:
                answer = forward(*args, **kwargs)
            finally:
                self._open_calls.pop()
                call.last = len(self.trace.operators)
            call.shapes = shapes_in(answer)
            call.new_bytes = _bytes(_new_tensors(tensors_in(answer), tensors_in((args, kwargs))))
            return answer

        return traced_forward

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and record it; the FLOPs of one with a decomposition are those of that.

        `func`: its overload; `types`: those of tensor subclasses; `args`, `kwargs`: its arguments.
        """
        kwargs = kwargs or {}
        is_outermost = self._depth == 0
        if is_outermost:
            self._flops = 0
            # Unpacked outside of the mark: what that allocates is not the operator's.
            self._packed = packed_in((args, kwargs))
        self._depth += 1
        mark = self.allocations.mark(len(self.trace.operators)) if is_outermost else nullcontext()
        try:
            with mark:
                answer = self._run(func, args, kwargs)
        finally:
            self._depth -= 1
        if is_outermost:
            self._record(func, tensors_in((args, kwargs)), tensors_in(answer))
        return answer

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator or its decomposition, and add its FLOPs."""
        packet = getattr(func, "overloadpacket", func)
        kind = _kind(func)
        if not has_formula(kind, packet) and hasattr(func, "decompose"):
            with self:
                answer = func.decompose(*args, **kwargs)
            if answer is not NotImplemented:
                return answer
        answer = func(*args, **kwargs)
        flops = operator_flops(kind, packet, args, kwargs, answer)
        if flops is None:
            flops = packed_flops(kind, self._packed, answer)
        self._flops = None if self._flops is None or flops is None else self._flops + flops
        return answer

    def _record(
        self, func: Any, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        new_tensors = _new_tensors(outputs, inputs)
        writes_input = bool(getattr(getattr(func, "_schema", None), "is_mutable", False))
        is_view = bool(outputs) and not new_tensors and not writes_input
        kind = _kind(func)
        self.trace.operators.append(
            Operator(
                name=f"aten::{kind}",
                call=self._open_calls[-1] if self._open_calls else -1,
                input_shapes=tuple(tuple(tensor.shape) for tensor in inputs),
                shapes=tuple(tuple(tensor.shape) for tensor in outputs),
                flops=self._flops,
                bytes_read=0 if is_view else bytes_read(kind, inputs, self._packed, outputs),
                bytes_written=0 if is_view else _bytes(outputs),
                new_bytes=_bytes(new_tensors),
            )
        )


def _kind(func: Any) -> str:
    """Return an operator's name without its namespace and overload."""
    return str(getattr(func, "overloadpacket", func)).rpartition(".")[2]


def _new_tensors(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return the outputs that share no memory with the inputs."""
    input_storages = {_storage(tensor)[0] for tensor in inputs}
    return [tensor for tensor in outputs if _storage(tensor)[0] not in input_storages]


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    """Return a key of a tensor's memory, and its bytes; a sparse tensor has a key of its own."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return id(tensor), _bytes([tensor])
    return storage._cdata, storage.nbytes()  # noqa: SLF001


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bytes_read(
    kind: str,
    inputs: Sequence[torch.Tensor],
    packed: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
) -> int:
    """Return the bytes that an operator reads; a storage counts at most once.

    `kind`: its name; `inputs`, `outputs`: its tensors; `packed`: those inside packed weights. Of a
    table only the rows that are read count; an embedding bag reads one for each index.
    """
    sizes_by_storage: dict[int, tuple[int, int]] = {}
    for tensor in inputs:
        key, storage_bytes = _storage(tensor)
        _, tensor_bytes = sizes_by_storage.get(key, (0, 0))
        sizes_by_storage[key] = (storage_bytes, tensor_bytes + _bytes([tensor]))
    read = sum(min(sizes) for sizes in sizes_by_storage.values()) + _bytes(packed)
    if kind.removeprefix("_") == "embedding_bag":
        table, indices = inputs[0], inputs[1]
        row_bytes = indices.numel() * table.shape[-1] * table.element_size()
        return int(read - max(0, _bytes([table]) - row_bytes))
    spared = spared_bytes(kind, [_bytes([tensor]) for tensor in inputs], _bytes(outputs[:1]))
    return int(read - spared)
