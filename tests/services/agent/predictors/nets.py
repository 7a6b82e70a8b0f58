"""Small PyTorch models, built by import path as a manifest would."""

import weakref
from typing import Any

import torch
from torch import nn

A_NUMBER = 7
LIVE: list[weakref.ref[torch.Tensor]] = []


def small() -> nn.Module:
    """Five scores from a picture of three channels."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
    )


def large() -> nn.Module:
    """Return a model whose weights can be watched."""
    last = nn.Linear(192, 1000)
    LIVE.append(weakref.ref(last.weight))
    return nn.Sequential(nn.Flatten(), last)


def fails() -> nn.Module:
    """No model."""
    raise RuntimeError("no such luck")


class _Difference(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b


def difference() -> nn.Module:
    """Two inputs whose order matters."""
    return _Difference()


class _Detector(nn.Module):
    def forward(self, images: list[torch.Tensor]) -> Any:
        found = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0)}
        first = {"scores": images[0].mean((1, 2)), "boxes": torch.zeros(3, 4)}
        return [first, *(found for _ in images[1:])]


def detector() -> nn.Module:
    """Boxes for each of a list of pictures."""
    return _Detector()
