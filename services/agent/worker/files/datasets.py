"""Samples by index: files and sources, read on demand, or synthetic tensors from a seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from mlscope.datasets.truth import Truth
from schemas.manifest import DatasetManifest, Synthetic, SyntheticTensor
from services.agent.errors import DatasetUnusable
from services.agent.predictors import TensorPlace
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.files.samples import CachedSamples, listed_samples, source_samples

_MOST_BYTES = 4 << 30

Tensors = npt.NDArray[np.generic]


class SampleMaps(Sequence[Mapping[str, Any]]):
    """Synthetic samples for several inputs: a sample is a map from input to tensor."""

    def __init__(self, arrays: Mapping[str, Tensors]) -> None:
        self._arrays = dict(arrays)
        self._count = min(len(array) for array in arrays.values())

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return one sample, or several."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        return {name: array[index] for name, array in self._arrays.items()}


def load_samples(
    dataset: DatasetManifest, folder: AssetFolder, inputs: Sequence[TensorPlace] = ()
) -> Sequence[Any]:
    """Return the samples of a `dataset`, whose files are in `folder`: bytes of files, or tensors.

    The first dimension of tensors is the samples. For a model of several `inputs`, whose shapes are
    without batch dimension, a synthetic sample is a map by input. Raises FileUnusable,
    DatasetUnusable; reading a sample of files or of a source raises DatasetError.
    """
    if dataset.synthetic is not None:
        return _synthetic_for(dataset.name, dataset.synthetic, inputs)
    if dataset.source is not None:
        return source_samples(dataset, dataset.source, folder)
    if not dataset.samples:
        raise DatasetUnusable(dataset.name, "holds no samples")
    return listed_samples(dataset, folder)


def truths_of(samples: Sequence[Any]) -> Sequence[Truth | None]:
    """Return the ground truth of each sample, read on demand; none for synthetic samples."""
    return samples.truths if isinstance(samples, CachedSamples) else ()


def synthetic_samples(name: str, synthetic: Synthetic) -> Tensors:
    """Return as many tensors as `synthetic` describes, the same for the same seed.

    Normal has mean 0 and deviation 1; uniform runs from `low` up to `high`; integer element types
    take the normal times 64, clipped to their range. `name` is the dataset's.

    Raises DatasetUnusable.
    """
    return _tensors(name, synthetic, synthetic.samples, _random(name, synthetic.seed))


def _synthetic_for(name: str, synthetic: Synthetic, inputs: Sequence[TensorPlace]) -> Sequence[Any]:
    if not inputs:
        return synthetic_samples(name, synthetic)  # type: ignore[return-value]
    names = [place.name for place in inputs]
    unknown = set(synthetic.inputs).difference(names)
    if unknown:
        reason = f"has input {min(unknown)}; the model's are {', '.join(names)}"
        raise DatasetUnusable(name, reason)
    arrays = {}
    for number, place in enumerate(inputs):
        declared = _for_input(synthetic.inputs.get(place.name, synthetic), place)
        # The first input has the numbers that a model of one input would have.
        seed = synthetic.seed if not number else (synthetic.seed, number)
        arrays[place.name] = _tensors(name, declared, synthetic.samples, _random(name, seed))
    if len(inputs) == 1:
        return arrays[inputs[0].name]  # type: ignore[return-value]
    return SampleMaps(arrays)


def _random(name: str, seed: int | tuple[int, int]) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except ValueError as error:
        raise DatasetUnusable(name, f"cannot be made from seed {seed}: {error}") from error


def _for_input(declared: SyntheticTensor, place: TensorPlace) -> SyntheticTensor:
    """Return the tensor to make for an input: as declared, or else as the model describes it.

    Undeclared integers are 0 or 1, which every index, mask and token type allows.
    """
    if declared.shape:
        return declared
    changes: dict[str, Any] = {"shape": place.shape, "element_type": place.element_type}
    if place.element_type[:3] in ("int", "uin", "boo") and declared.high is None:
        changes |= {"distribution": "uniform", "low": 0.0, "high": 2.0}
    return declared.model_copy(update=changes)


def _tensors(
    name: str, declared: SyntheticTensor, samples: int, random: np.random.Generator
) -> Tensors:
    """Return as many random tensors as there are `samples`. Raises DatasetUnusable."""
    shape, element_type = (samples, *declared.shape), declared.element_type
    try:
        kind = np.dtype(element_type)
    except TypeError as error:
        raise DatasetUnusable(name, f"unknown element type {element_type!r}") from error
    if kind.kind not in "fiub":
        raise DatasetUnusable(name, f"element type {element_type!r} is not a number")
    if math.prod(shape) * kind.itemsize > _MOST_BYTES:
        raise DatasetUnusable(name, f"{shape} of {kind} is more than {_MOST_BYTES} bytes")
    try:
        values = _draw(shape, declared, kind, random)
    except (ValueError, OverflowError, MemoryError) as error:
        raise DatasetUnusable(name, f"{shape} of {kind}: {error}") from error
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        # As float64, which can represent the limits of large integers.
        return np.clip(values.astype(np.float64), limits.min, limits.max).astype(kind)
    return values.astype(kind)


def _draw(
    shape: tuple[int, ...],
    declared: SyntheticTensor,
    kind: np.dtype[Any],
    random: np.random.Generator,
) -> npt.NDArray[np.floating[Any]]:
    """Return random numbers of the declared distribution. Raises ValueError for an empty range."""
    is_integer = kind.kind in "iub"
    if declared.distribution == "zeros":
        return np.zeros(shape, np.float32)
    if declared.distribution != "uniform":
        values = random.standard_normal(shape, np.float32)
        return values * np.float32(64.0) if is_integer else values
    low, high = declared.low, declared.high
    if high is None:
        high = low + (64.0 if is_integer else 1.0)
    if high <= low:
        raise ValueError(f"uniform from {low:g} up to {high:g}")
    return _uniform(shape, low, high, is_integer, random)


def _uniform(
    shape: tuple[int, ...], low: float, high: float, is_integer: bool, random: np.random.Generator
) -> npt.NDArray[np.floating[Any]]:
    """Return uniform random numbers from `low` to below `high`, whole ones of an integer kind."""
    # float32 holds each integer up to 2**24.
    real = np.float64 if max(abs(low), abs(high)) > 1 << 24 else np.float32
    values = random.random(shape, real) * real(high - low)
    if is_integer:
        values = np.minimum(np.floor(values), real(high - low - 1.0))
    return values + real(low)
