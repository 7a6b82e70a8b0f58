"""Measure what loading and moving a PyTorch model's weights takes, module by module.

Loading is measured in each module's `_load_from_state_dict`, which `load_state_dict` calls for one
module's own weights after the other. Moving to a device is measured in `_apply`, which `to` calls
for a module after its children. Both are wrapped on the instances, and unwrapped again. The copy of
pageable memory to a GPU is synchronous, so the time of a move includes it (CUDA C++ Programming
Guide, API synchronization behavior). A scripted module would keep the wrapper, so it is not
measured.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mlscope.tracing.clock import now_ns
from mlscope.tracing.weights import LOAD, PLACE
from services.agent.predictors import WeightMove


class WeightWatch:
    """Records a `WeightMove` for each module whose weights are loaded or moved, if it is on."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self.moves: list[WeightMove] = []

    @contextmanager
    def loading(self, model: Any) -> Iterator[None]:
        """Record what `model.load_state_dict` spends on each module."""
        with self._wrapped(model, "_load_from_state_dict", LOAD):
            yield

    @contextmanager
    def placing(self, model: Any) -> Iterator[None]:
        """Record what `model.to` spends on each module."""
        with self._wrapped(model, "_apply", PLACE):
            yield

    @contextmanager
    def _wrapped(self, model: Any, method: str, action: str) -> Iterator[None]:
        def timed(inner: Callable[..., Any], name: str, weight_bytes: int) -> Callable[..., Any]:
            def timed_method(*args: Any, **kwargs: Any) -> Any:
                began, moves_before = now_ns(), len(self.moves)
                result = inner(*args, **kwargs)
                ended = now_ns()
                if len(self.moves) > moves_before:
                    # Its children came first; its own weights took the time since the last one.
                    last = self.moves[-1]
                    began = last.start_ns + last.duration_ns
                thread = threading.get_native_id()
                move = WeightMove(action, name, began, ended - began, thread, weight_bytes)
                self.moves.append(move)
                return result

            return timed_method

        wrapped = []
        is_module = isinstance(model, torch.nn.Module)
        if self._is_on and is_module and not isinstance(model, torch.jit.ScriptModule):
            for name, module in model.named_modules():
                if weight_bytes := own_bytes(module):
                    inner = getattr(module, method)
                    label = name or type(module).__name__
                    setattr(module, method, timed(inner, label, weight_bytes))
                    wrapped.append(module)
        try:
            yield
        finally:
            for module in wrapped:
                delattr(module, method)


def own_bytes(module: torch.nn.Module) -> int:
    """Return the bytes of a module's own parameters and buffers, without its children's."""
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return sum(tensor.nbytes for tensor in own)
