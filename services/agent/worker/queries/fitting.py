"""Checks that a dataset's samples fit an opened model: its inputs, and the steps before it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.manifest import DatasetManifest, SyntheticTensor
from services.agent.errors import DatasetUnusable
from services.agent.predictors import TensorPlace
from services.agent.worker.queries.pipeline import Pipeline, PortOperators


def require_shapes(dataset: DatasetManifest, pipeline: Pipeline) -> None:
    """Require shapes of synthetic samples that steps turn into the model's tensors.

    Raises DatasetUnusable.
    """
    synthetic = dataset.synthetic
    if synthetic is None:
        return
    for port in pipeline.before:
        has_steps = port.steps or pipeline.code_before
        if has_steps and not synthetic.inputs.get(port.name, synthetic).shape:
            reason = f"declares no shape, and the model has steps for input {port.name}"
            raise DatasetUnusable(dataset.name, reason)


def with_ranges(dataset: DatasetManifest, pipeline: Pipeline) -> DatasetManifest:
    """Return a `dataset` whose undeclared synthetic integers are within the ranges of the inputs.

    An input behind steps of the `pipeline`, one of zeros, or with a `high` stays as declared. A
    `low` other than 0 stays, too.
    """
    synthetic = dataset.synthetic
    if synthetic is None:
        return dataset
    tensors = dict(synthetic.inputs)
    for port in pipeline.before:
        declared = tensors.get(port.name, synthetic)
        if port.limits is None or port.steps or declared.high is not None:
            continue
        if declared.distribution != "zeros":
            low, high = port.limits
            bounds = {"low": declared.low or low, "high": high}
            fields = {"shape": declared.shape, "element_type": declared.element_type}
            bounded = SyntheticTensor(distribution="uniform", **bounds, **fields)
            tensors[port.name] = bounded
    bounded_synthetic = synthetic.model_copy(update={"inputs": tensors})
    return dataset.model_copy(update={"synthetic": bounded_synthetic})


def require_fitting(
    dataset: DatasetManifest, sample: Any, inputs: Sequence[TensorPlace], pipeline: Pipeline
) -> None:
    """Require a first `sample` of a `dataset` that the model accepts. Raises DatasetUnusable.

    `inputs` are those that samples fill, without the batch dimension, in the order of the
    `pipeline`. Where inline code prepares samples, only the code knows what it accepts.
    """
    if pipeline.code_before:
        return
    for port, tensor in zip(pipeline.before, inputs, strict=True):
        if isinstance(sample, dict) and port.name not in sample:
            names = ", ".join(sample)
            raise DatasetUnusable(dataset.name, f"holds {names}, but not input {port.name}")
        value = sample[port.name] if isinstance(sample, dict) else sample
        if fault := _fault(value, port, tensor):
            raise DatasetUnusable(dataset.name, fault)


def _fault(value: Any, port: PortOperators, tensor: TensorPlace) -> str:
    """Return why an input can't take a value; '' where it can."""
    if not isinstance(value, np.ndarray):
        return "" if port.steps else "holds files, but the model has no step for them"
    if port.steps:
        is_decoded = port.steps[0].name == "decode"
        return "holds tensors, but the model decodes files" if is_decoded else ""
    if value.shape == tensor.shape and value.dtype == tensor.element_type:
        return ""
    actual = f"{value.dtype}{list(value.shape)}"
    return f"holds {actual}, the model takes {tensor.element_type}{list(tensor.shape)}"
