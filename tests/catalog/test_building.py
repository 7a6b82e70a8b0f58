"""The whole catalog builds, and has as many parameters as its manifests say."""

import pytest

from tests.catalog.answering import catalog_names, model_of
from tests.catalog.children import told_by

MANY = 300_000_000
NOT_WITH_TORCH = ("keras-nasnetmobile",)
"""Refuses to be built by PyTorch; test_running.py runs it."""

AUXILIARY = ("torchvision-googlenet", "torchvision-quantized-googlenet")
"""Have two more classifiers to learn with: in their weights, and not in what is counted."""


def parameters(name: str) -> int:
    """Return how many parameters a manifest says a model has; 0 where it does not."""
    return int(model_of(name).attributes.get("parameters") or 0)


def is_as_said(name: str, found: int) -> bool:
    """Say whether a model has its parameters; a detector's frozen norms are counted or not."""
    said = parameters(name)
    if "detection" in model_of(name).model.builder:
        return abs(found - said) <= said // 100
    return found == said or name in AUXILIARY


def part(source: str, number: int, parts: int) -> list[str]:
    """Return one part of a source's models, those of many parameters left out."""
    names = [each for each in catalog_names(source) if each not in NOT_WITH_TORCH]
    return [each for each in names if parameters(each) <= MANY][number::parts]


def assert_built(kind: str, names: list[str]) -> None:
    """Check that each model is built with all its parameters."""
    told = told_by("building", kind, *names)
    assert list(told) == names
    for name, found in told.items():
        assert "error" not in found, f"{name}: {found['error']}"
        assert is_as_said(name, found["parameters"]), f"{name} has {found['parameters']}"


@pytest.mark.timeout(600)
def test_some_models_are_built_without_memory() -> None:
    """One in 25 of torchvision's; the next tests build all, timm's and Keras' as well."""
    assert_built("torch", part("torchvision", 3, 25))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("source", ["torchvision", "timm"])
def test_every_pytorch_model_is_built_without_memory(source: str, number: int) -> None:
    assert_built("torch", part(source, number, 2))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(2))
def test_every_keras_model_is_built_without_memory(number: int) -> None:
    assert_built("keras", part("keras", number, 2))


@pytest.mark.large
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", ["torchvision", "timm"])
def test_the_largest_are_built_and_run(source: str) -> None:
    """With memory: 300 million parameters and more, of 4 bytes each."""
    names = [each for each in catalog_names(source) if parameters(each) > MANY]
    if not names:
        pytest.skip(f"{source} has none so large")
    told = told_by("running", *names)
    assert list(told) == names
    for name, found in told.items():
        assert "error" not in found, f"{name}: {found['error']}"
        assert found["finite"], name
