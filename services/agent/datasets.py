"""Samples by index: files loaded and checked up front, or tensors made from a seed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.manifest import DatasetManifest, Synthetic
from services.agent.assets import AssetFolder
from services.agent.errors import DatasetUnusable

_MOST_BYTES = 4 << 30

Tensors = npt.NDArray[np.generic]


def load_samples(dataset: DatasetManifest, folder: AssetFolder) -> Sequence[Any]:
    """Return the samples: bytes of files, or an array of tensors (first dimension: samples).

    Raises AssetError, DatasetUnusable.
    """
    if dataset.synthetic is not None:
        return synthetic_samples(dataset.name, dataset.synthetic)  # type: ignore[return-value]
    if not dataset.samples:
        raise DatasetUnusable(dataset.name, "holds no samples")
    return [folder.read(sample.path, sample.sha256) for sample in dataset.samples]


def synthetic_samples(name: str, synthetic: Synthetic) -> Tensors:
    """Return `samples` tensors of `shape`, the same for the same seed. Raises DatasetUnusable.

    Normal has mean 0 and deviation 1; uniform runs from 0 up to 1; integer element types take
    the normal times 64, cut to their range.
    """
    shape = (synthetic.samples, *synthetic.shape)
    kind = _element_type(name, synthetic.element_type)
    if math.prod(shape) * kind.itemsize > _MOST_BYTES:
        raise DatasetUnusable(name, f"{shape} of {kind} is more than {_MOST_BYTES} bytes")
    try:
        drawn = _drawn(shape, synthetic)
    except (ValueError, OverflowError, MemoryError) as error:
        raise DatasetUnusable(name, f"{shape} from seed {synthetic.seed}: {error}") from error
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.clip(drawn * 64, limits.min, limits.max).astype(kind)
    return drawn.astype(kind)


def _drawn(shape: tuple[int, ...], synthetic: Synthetic) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(synthetic.seed)
    if synthetic.distribution == "zeros":
        return np.zeros(shape, np.float32)
    if synthetic.distribution == "uniform":
        return random.random(shape, np.float32)
    return random.standard_normal(shape, np.float32)


def _element_type(name: str, text: str) -> np.dtype[Any]:
    try:
        kind = np.dtype(text)
    except TypeError as error:
        raise DatasetUnusable(name, f"unknown element type {text!r}") from error
    if kind.kind not in "fiu":
        raise DatasetUnusable(name, f"element type {text!r} is not a number")
    return kind
