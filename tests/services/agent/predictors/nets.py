"""Small PyTorch models, built by import path as a manifest would."""

import threading
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


def quantized() -> nn.Module:
    """Return five scores from a picture, by a layer of packed weights of one byte."""
    floating = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    return torch.ao.quantization.quantize_dynamic(floating, {nn.Linear})


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


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.act = nn.ReLU(inplace=True)
        self.unused = nn.Linear(3, 3)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.act(self.norm(self.conv(pixels))) + pixels
        return out


class _Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = _Block()
        self.again = self.first
        self.scores = nn.Linear(192, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.scores(torch.flatten(self.again(self.first(x * 2)), 1))
        return out


def layered() -> nn.Module:
    """One block called twice under two names, what has no module, and a module that never runs."""
    return _Layered()


class _Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Flatten()
        self.positive = nn.Linear(192, 5)
        self.negative = nn.Linear(192, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.before(x)
        chosen = self.positive if float(rows.mean()) > 0 else self.negative
        out: torch.Tensor = chosen(rows) + 1
        return out


def choosing() -> nn.Module:
    """Another way through the model by what it is given."""
    return _Choosing()


class _Threaded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 3, 1)
        self.right = nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: list[torch.Tensor] = []

        def work() -> None:
            with torch.inference_mode():
                found.append(self.right(x))

        thread = threading.Thread(target=work)
        thread.start()
        own = self.left(x)
        thread.join()
        out: torch.Tensor = own + found[0]
        return out


def threaded() -> nn.Module:
    """Two branches on two threads."""
    return _Threaded()


class _Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(2)[:, :, :8]
        out: torch.Tensor = self.attention(rows, rows, rows)[0]
        return out


def attending() -> nn.Module:
    """Attention, whose inner layer PyTorch never calls as a module."""
    return _Attending()


def functional() -> nn.Module:
    """No module but the model itself."""
    return _Functional()


class _Functional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2) + 1
