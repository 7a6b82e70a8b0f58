"""Normalises bytes on the model's device, before its call."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from services.agent.predictors.normalization import Normalization, difference_note
from services.agent.predictors.pytorch.feed import DTYPES
from services.agent.predictors.pytorch.options import Options

Call = Callable[[list[torch.Tensor]], Any]
Normalize = Callable[[torch.Tensor], torch.Tensor]


def normalizing(
    call: Call, normalizations: Sequence[Normalization | None], options: Options
) -> Call:
    """Return a `call` that takes bytes where an input has one of the `normalizations`.

    They are in the order of its inputs. Numbers are computed in float32 on the device, and then as
    the `options` say.
    """
    if not any(normalizations):
        return call
    steps = [
        None if normalization is None else normalize_of(normalization, options)
        for normalization in normalizations
    ]

    def normalized_call(tensors: list[torch.Tensor]) -> Any:
        pairs = zip(steps, tensors, strict=True)
        return call([step(tensor) if step else tensor for step, tensor in pairs])

    return normalized_call


def normalize_of(normalization: Normalization, options: Options) -> Normalize:
    """Return the function of a batch of bytes, in the precision and layout of the `options`."""
    device = torch.device(options.device)
    shape = (-1, 1, 1) if normalization.channels_first else (-1,)
    mean, scale = (
        torch.tensor(numbers, dtype=torch.float32, device=device).reshape(shape)
        for numbers in (normalization.mean, normalization.scale)
    )

    def normalize(pixels: torch.Tensor) -> torch.Tensor:
        numbers = pixels.to(torch.float32)
        if normalization.factor != 1.0:
            numbers = numbers * normalization.factor
        numbers = ((numbers - mean) / scale).to(DTYPES[options.precision])
        if options.channels_last:
            return numbers.contiguous(memory_format=torch.channels_last)
        return numbers

    return normalize


def notes_of(
    names: Sequence[str], normalizations: Sequence[Normalization | None], options: Options
) -> tuple[str, ...]:
    """Return how the numbers of inputs with one of the `normalizations` differ from the host's.

    `names` are those of all inputs; the `options` say which device computes.
    """
    pairs = zip(names, normalizations, strict=False)
    return tuple(
        difference_note(name, options.device, largest_difference(normalization, options))
        for name, normalization in pairs
        if normalization is not None
    )


def largest_difference(normalization: Normalization, options: Options) -> float:
    """Return the largest difference from the host's numbers over all bytes, before rounding."""
    expected = torch.from_numpy(normalization.on_host)
    values = torch.arange(256, dtype=torch.uint8, device=options.device)
    pixels = values.reshape(256, 1).repeat(1, expected.shape[1])
    in_layout = pixels.reshape(256, -1, 1, 1) if normalization.channels_first else pixels
    plain = replace(options, precision="float32", channels_last=False)
    with torch.inference_mode():
        numbers = normalize_of(normalization, plain)(in_layout).reshape(256, -1).cpu()
    return float((numbers - expected).abs().max())
