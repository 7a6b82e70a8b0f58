"""What a PyTorch model's weights cost as it is opened, module by module.

Loading is seen in each module's `_load_from_state_dict`, which `load_state_dict` calls for one
module's own weights after the other; moving to a device in `_apply`, which `to` calls for a module
once its children are through. Both are wrapped on the instances, and taken off again. On a GPU
the copy of pageable memory is waited for, so that a move's time holds its copy's (CUDA C++
Programming Guide, API synchronization behavior). A scripted module keeps what is set on it, so
that nothing is seen of it.
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
    """Notes what weights cost while they are loaded and moved; none where it is off."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self.moves: list[WeightMove] = []

    @contextmanager
    def loading(self, model: Any) -> Iterator[None]:
        """Note what `model.load_state_dict` spends on each module within."""
        with self._wrapped(model, "_load_from_state_dict", LOAD):
            yield

    @contextmanager
    def placing(self, model: Any) -> Iterator[None]:
        """Note what `model.to` spends on each module within."""
        with self._wrapped(model, "_apply", PLACE):
            yield

    @contextmanager
    def _wrapped(self, model: Any, method: str, action: str) -> Iterator[None]:
        wrapped = [*self._with_weights(model)] if self._is_on else []
        for name, module, size in wrapped:
            setattr(module, method, self._timed(getattr(module, method), action, name, size))
        try:
            yield
        finally:
            for _, module, _ in wrapped:
                delattr(module, method)

    def _with_weights(self, model: Any) -> Iterator[tuple[str, torch.nn.Module, int]]:
        """Yield each module that has weights of its own: its qualified name, and their bytes."""
        if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
            return
        for name, module in model.named_modules():
            size = own_bytes(module)
            if size:
                yield name or type(module).__name__, module, size

    def _timed(
        self, inner: Callable[..., Any], action: str, name: str, size: int
    ) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began, known = now_ns(), len(self.moves)
            result = inner(*args, **kwargs)
            ended = now_ns()
            if len(self.moves) > known:
                # Its children came first: its own weights are what is left.
                last = self.moves[-1]
                began = last.start_ns + last.duration_ns
            thread = threading.get_native_id()
            self.moves.append(WeightMove(action, name, began, ended - began, thread, size))
            return result

        return timed


def own_bytes(module: torch.nn.Module) -> int:
    """Return the bytes of a module's own parameters and buffers, its children's left out."""
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return sum(each.nbytes for each in own)
