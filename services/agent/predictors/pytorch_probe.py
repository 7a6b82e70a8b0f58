"""What a PyTorch model does in one uncounted call: which modules run, and which operators.

One real call under a dispatch mode, not one with fake tensors: a real one also gets through models
whose shapes depend on data, and costs a call. It is never around a timed or a compiled model.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from services.agent.predictors.natures import spared_bytes
from services.agent.predictors.pytorch_flops import (
    has_formula,
    operator_flops,
    packed_flops,
    packed_in,
)
from services.agent.predictors.pytorch_memory import Allocations

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator as the model called it; what it called itself is counted in it."""

    name: str
    #: the innermost module call it was made in, its place in `Seen.calls`; -1 outside of all
    call: int
    input_shapes: tuple[Shape, ...]
    shapes: tuple[Shape, ...]
    #: None where a product in it has no formula
    flops: int | None
    bytes_read: int
    bytes_written: int
    #: bytes of outputs that are not one of its inputs again
    new_bytes: int
    #: bytes that it allocated, those that it freed again too; None where PyTorch does not tell
    allocated_bytes: int | None = None


@dataclass(slots=True)
class ModuleCall:
    """One call of a module's forward."""

    module: torch.nn.Module
    input_shapes: tuple[Shape, ...]
    #: the operators before it began, and before it ended
    first: int
    last: int = 0
    shapes: tuple[Shape, ...] = ()
    #: bytes of outputs that are not one of its inputs again
    new_bytes: int = 0
    #: whether modules were called in it
    is_container: bool = False


@dataclass(slots=True)
class Seen:
    """Module calls in order of their begin, and operators in order."""

    calls: list[ModuleCall] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)


def probe(model: Any, call: Callable[[], Any]) -> Seen:
    """Return what one call of a model does. Raises what the model raises."""
    watch = _Watch()
    with watch.allocations.watching(), _wrapped(_modules_in(model), watch.around), watch:
        call()
    seen = watch.seen
    told = (watch.allocations.within([number]) for number in range(len(seen.operators)))
    pairs = zip(seen.operators, told, strict=True)
    seen.operators = [replace(each, allocated_bytes=grown) for each, grown in pairs]
    return seen


def memory_of(operators: Sequence[Operator], outputs: int) -> tuple[int, str]:
    """Return the bytes operators allocate, and how that is known: else `outputs`, by their size."""
    known = [each.allocated_bytes for each in operators if each.allocated_bytes is not None]
    return (outputs, "outputs") if len(known) < len(operators) else (sum(known), "measured")


def wrap(module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[[], None]:
    """Let a module's calls go to `forward`; the function returned undoes it.

    The instance alone is changed, and no hook attached: hooks make PyTorch leave fast paths.
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
    """Whether a module's forward is an attribute of Python's that can be replaced."""
    return isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule)


def names_of(model: torch.nn.Module) -> Mapping[int, Sequence[str]]:
    """Return every qualified name of each module, by id; one shared in two places has two."""
    names: dict[int, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(id(module), []).append(name)
    return names


def shapes_in(value: Any) -> tuple[Shape, ...]:
    """Return the shapes of all tensors in arguments or results."""
    return tuple(tuple(each.shape) for each in tensors_in(value))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return all tensors in arguments or results."""
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes module calls and operators of the thread it is entered in."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = Seen()
        self.allocations = Allocations()
        self._open: list[int] = []
        self._depth = 0
        self._flops: int | None = 0
        self._packed: Sequence[torch.Tensor] = ()
        self._thread = threading.get_ident()

    def around(self, module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a module's forward that notes its calls."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return forward(*args, **kwargs)
            call = self._begin(module, (args, kwargs))
            try:
                answer = forward(*args, **kwargs)
            finally:
                self._open.pop()
                call.last = len(self.seen.operators)
            call.shapes = shapes_in(answer)
            call.new_bytes = _bytes(_fresh(tensors_in(answer), tensors_in((args, kwargs))))
            return answer

        return noted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and note it; its decomposition is run for FLOPs where it has one."""
        kwargs = kwargs or {}
        if self._depth == 0:
            self._flops = 0
            # Unpacked here, where what that allocates is not the operator's.
            self._packed = packed_in((args, kwargs))
        is_own = self._depth == 0
        self._depth += 1
        try:
            with self.allocations.mark(len(self.seen.operators)) if is_own else nullcontext():
                answer = self._run(func, args, kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            self._note(func, args, kwargs, answer)
        return answer

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
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

    def _note(self, func: Any, args: Any, kwargs: Any, answer: Any) -> None:
        given, made = tensors_in((args, kwargs)), tensors_in(answer)
        fresh = _fresh(made, given)
        is_view = bool(made) and not fresh and not _writes(func)
        self.seen.operators.append(
            Operator(
                name=f"aten::{_kind(func)}",
                call=self._open[-1] if self._open else -1,
                input_shapes=tuple(tuple(each.shape) for each in given),
                shapes=tuple(tuple(each.shape) for each in made),
                flops=self._flops,
                bytes_read=0 if is_view else _bytes_read(_kind(func), given, self._packed, made),
                bytes_written=0 if is_view else _bytes(made),
                new_bytes=_bytes(fresh),
            )
        )

    def _begin(self, module: torch.nn.Module, given: Any) -> ModuleCall:
        if self._open:
            self.seen.calls[self._open[-1]].is_container = True
        self._open.append(len(self.seen.calls))
        call = ModuleCall(module, shapes_in(given), len(self.seen.operators))
        self.seen.calls.append(call)
        return call


@contextmanager
def _wrapped(
    modules: Sequence[torch.nn.Module],
    around: Callable[[torch.nn.Module, Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    undone = [wrap(module, around(module, module.forward)) for module in modules]
    try:
        yield
    finally:
        for undo in reversed(undone):
            undo()


def _modules_in(model: Any) -> list[torch.nn.Module]:
    if not isinstance(model, torch.nn.Module):
        return []
    return [module for module in model.modules() if wrappable(module)]


def _kind(func: Any) -> str:
    return str(getattr(func, "overloadpacket", func)).rpartition(".")[2]


def _writes(func: Any) -> bool:
    """Whether an operator writes into one of its arguments."""
    return bool(getattr(getattr(func, "_schema", None), "is_mutable", False))


def _fresh(made: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that share no memory with those given."""
    held = {_storage(each)[0] for each in given}
    return [each for each in made if _storage(each)[0] not in held]


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    """Return which memory a tensor lies in, and its bytes; sparse and foreign ones lie alone."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return id(tensor), _bytes([tensor])
    return storage._cdata, storage.nbytes()  # noqa: SLF001


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _bytes_read(
    kind: str,
    given: Sequence[torch.Tensor],
    packed: Sequence[torch.Tensor],
    made: Sequence[torch.Tensor],
) -> int:
    """Return the bytes of an operator's inputs, what lies in one storage at most once.

    Of a table only the rows that are taken count; a bag of them takes one an index.
    """
    held: dict[int, tuple[int, int]] = {}
    for each in given:
        key, whole = _storage(each)
        held[key] = (whole, held.get(key, (0, 0))[1] + _bytes([each]))
    read = sum(min(sizes) for sizes in held.values()) + _bytes(packed)
    if kind.removeprefix("_") == "embedding_bag":
        table, rows = given[0], given[1].numel() * given[0].shape[-1] * given[0].element_size()
        return read - max(0, _bytes([table]) - rows)
    return read - spared_bytes(kind, [_bytes([each]) for each in given], _bytes(made[:1]))
