"""Samples by index: of files and sources, read when asked for, or tensors made from a seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from mlscope.datasets.truth import Truth
from schemas.manifest import DatasetManifest, Synthetic, SyntheticTensor
from services.agent.assets import AssetFolder
from services.agent.errors import DatasetUnusable
from services.agent.predictors import TensorPlace
from services.agent.samples import Held, listed, sourced

_MOST_BYTES = 4 << 30

Tensors = npt.NDArray[np.generic]


class SampleMaps(Sequence[Mapping[str, Any]]):
    """Tensors of several inputs: a sample is a map from input to tensor."""

    def __init__(self, arrays: Mapping[str, Tensors]) -> None:
        self._arrays = dict(arrays)
        self._count = min(len(each) for each in arrays.values())

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return one sample, or several."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        return {name: array[index] for name, array in self._arrays.items()}


def load_samples(
    dataset: DatasetManifest, folder: AssetFolder, inputs: Sequence[TensorPlace] = ()
) -> Sequence[Any]:
    """Return the samples: bytes of files, or tensors. First dimension: samples.

    For a model of several `inputs` a synthetic sample is a map by input, and a sample of files is
    what its manifest says. Shapes of `inputs` are without batch. Raises AssetError,
    DatasetUnusable; reading one of files or of a source, DatasetError.
    """
    if dataset.synthetic is not None:
        return _made(dataset.name, dataset.synthetic, inputs)
    if dataset.source is not None:
        return sourced(dataset, dataset.source, folder)
    if not dataset.samples:
        raise DatasetUnusable(dataset.name, "holds no samples")
    return listed(dataset, folder)


def truths_of(samples: Sequence[Any]) -> Sequence[Truth | None]:
    """Return what is true of each sample, read when asked for; nothing of what was made."""
    return samples.truths if isinstance(samples, Held) else ()


def synthetic_samples(name: str, synthetic: Synthetic) -> Tensors:
    """Return `samples` tensors of `shape`, the same for the same seed. Raises DatasetUnusable.

    Normal has mean 0 and deviation 1; uniform runs from `low` up to `high`; integer element types
    take the normal times 64, cut to their range.
    """
    return _tensors(name, synthetic, synthetic.samples, _random(name, synthetic.seed))


def _made(name: str, synthetic: Synthetic, inputs: Sequence[TensorPlace]) -> Sequence[Any]:
    unknown = set(synthetic.inputs) - {place.name for place in inputs}
    if unknown and inputs:
        known = ", ".join(place.name for place in inputs)
        raise DatasetUnusable(name, f"has input {min(unknown)}; the model's are {known}")
    if not inputs or (len(inputs) == 1 and synthetic.shape and not synthetic.inputs):
        return synthetic_samples(name, synthetic)  # type: ignore[return-value]
    arrays = {}
    for number, place in enumerate(inputs):
        said = _for_input(synthetic.inputs.get(place.name, synthetic), place)
        # The first input has the numbers that a model of one input would have.
        seed = synthetic.seed if not number else (synthetic.seed, number)
        arrays[place.name] = _tensors(name, said, synthetic.samples, _random(name, seed))
    if len(inputs) == 1:
        return arrays[inputs[0].name]  # type: ignore[return-value]
    return SampleMaps(arrays)


def _random(name: str, seed: int | tuple[int, int]) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except ValueError as error:
        raise DatasetUnusable(name, f"cannot be made from seed {seed}: {error}") from error


def _for_input(said: SyntheticTensor, place: TensorPlace) -> SyntheticTensor:
    """Return what to make for an input; of one that nothing is said of, by the model.

    A whole number nobody described is 0 or 1: every index, mask and token type allows that.
    """
    if said.shape:
        return said
    changes: dict[str, Any] = {"shape": place.shape, "element_type": place.element_type}
    if place.element_type[:3] in ("int", "uin", "boo") and said.high is None:
        changes |= {"distribution": "uniform", "low": 0.0, "high": 2.0}
    return said.model_copy(update=changes)


def _tensors(
    name: str, said: SyntheticTensor, samples: int, random: np.random.Generator
) -> Tensors:
    shape = (samples, *said.shape)
    kind = _element_type(name, said.element_type)
    if math.prod(shape) * kind.itemsize > _MOST_BYTES:
        raise DatasetUnusable(name, f"{shape} of {kind} is more than {_MOST_BYTES} bytes")
    try:
        drawn = _drawn(shape, said, kind, random)
    except (ValueError, OverflowError, MemoryError) as error:
        raise DatasetUnusable(name, f"{shape} of {kind}: {error}") from error
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        # As float64, which holds the largest whole number that is cut to.
        return np.clip(drawn.astype(np.float64), limits.min, limits.max).astype(kind)
    return drawn.astype(kind)


def _drawn(
    shape: tuple[int, ...], said: SyntheticTensor, kind: np.dtype[Any], random: np.random.Generator
) -> npt.NDArray[np.float32]:
    whole = kind.kind in "iub"
    if said.distribution == "zeros":
        return np.zeros(shape, np.float32)
    if said.distribution == "uniform":
        high = said.high if said.high is not None else said.low + (64.0 if whole else 1.0)
        if high <= said.low:
            raise ValueError(f"uniform from {said.low:g} up to {high:g}")
        drawn = random.random(shape, np.float32) * np.float32(high - said.low)
        if whole:
            drawn = np.minimum(np.floor(drawn), np.float32(high - said.low - 1.0))
        return drawn + np.float32(said.low)
    drawn = random.standard_normal(shape, np.float32)
    return drawn * np.float32(64.0) if whole else drawn


def _element_type(name: str, text: str) -> np.dtype[Any]:
    try:
        kind = np.dtype(text)
    except TypeError as error:
        raise DatasetUnusable(name, f"unknown element type {text!r}") from error
    if kind.kind not in "fiub":
        raise DatasetUnusable(name, f"element type {text!r} is not a number")
    return kind
