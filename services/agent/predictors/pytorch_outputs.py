"""What a PyTorch model returns, as arrays by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from services.agent.predictors import Tensors


def leaves_of(answer: Any, names: Sequence[str]) -> Tensors:
    """Return every tensor of an answer on the host, named as the manifest names its outputs.

    The manifest's names are used where they are the model's own; otherwise in order, as far as
    they go. A tensor inside a list or map is called by its path, as `0.boxes`. bfloat16, which
    NumPy has not, becomes float32.
    """
    found = list(_leaves(answer, ""))
    own = [name for name, _ in found]
    if not (set(names) & set(own)):
        own = [*names[: len(own)], *own[len(names) :]]
    return {name: array_of(tensor) for name, (_, tensor) in zip(own, found, strict=True)}


def name_of_one(names: Sequence[str]) -> str:
    """Return what an answer that is one tensor is called, by the rule of `leaves_of`."""
    return "0" if not names or "0" in names else names[0]


def array_of(tensor: torch.Tensor) -> Any:
    """Return a tensor as an array of the host; bfloat16 becomes float32."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.cpu().numpy()


def _leaves(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path or "0", value
        return
    if isinstance(value, Mapping):
        below = [(str(name), each) for name, each in value.items()]
    elif isinstance(value, list | tuple):
        below = [(str(n), each) for n, each in enumerate(value)]
    elif is_dataclass(value) and not isinstance(value, type):
        below = [(each.name, getattr(value, each.name)) for each in fields(value)]
    else:
        return
    for name, each in below:
        yield from _leaves(each, f"{path}.{name}" if path else name)
