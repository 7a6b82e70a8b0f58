"""Extras of the package: each has what the modules that it is for import."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        ("charts", "vl-convert-python"),  # services.gateway.charts.pen
        ("datasets", "crc32c"),  # mlscope.datasets.readers.crc32c
        ("datasets", "scipy"),  # mlscope.datasets.readers.imagenet
        ("jax", "safetensors"),  # services.agent.predictors.jax.program
        ("pytorch", "efficientnet-lite-pytorch"),  # builder of efficientnet-lite0-pytorch
        ("resizing", "cykooz-resizer"),  # services.agent.steps.fast_resize
        ("pytorch", "safetensors"),  # services.agent.predictors.pytorch.models
    ],
)
def test_an_extra_has_the_packages_of_its_modules(extra: str, package: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = map(Requirement, project["optional-dependencies"][extra])
    assert package in {requirement.name for requirement in requirements}
