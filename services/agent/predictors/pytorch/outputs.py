"""Turn what a PyTorch model returns into tensors by name, and these into arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch


def leaves_of(answer: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return every tensor of a model's `answer` by name, where it is.

    A tensor inside a list or map has its path as its own name, such as `0.boxes`. The manifest's
    `names` replace the own ones in order, unless any of them is an own name already.
    """
    leaves = list(_leaves(answer, ""))
    own = [name for name, _ in leaves]
    if not (set(names) & set(own)):
        own = [*names[: len(own)], *own[len(names) :]]
    return {name: tensor for name, (_, tensor) in zip(own, leaves, strict=True)}


def single_output_name(names: Sequence[str]) -> str:
    """Return the name of an answer that is a single tensor, by the rule of `leaves_of`."""
    return "0" if not names or "0" in names else names[0]


def array_of(tensor: torch.Tensor) -> Any:
    """Return a tensor as an array on the host; bfloat16 becomes float32."""
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
        members = [(str(key), member) for key, member in value.items()]
    elif isinstance(value, list | tuple):
        members = [(str(n), member) for n, member in enumerate(value)]
    elif is_dataclass(value) and not isinstance(value, type):
        members = [(field.name, getattr(value, field.name)) for field in fields(value)]
    else:
        return
    for name, member in members:
        yield from _leaves(member, f"{path}.{name}" if path else name)
