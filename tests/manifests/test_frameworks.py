"""The shipped framework manifests say which options their predictors take."""

from pathlib import Path

import pytest

from mlscope.manifests.folders import read_manifest
from schemas.manifest import FrameworkManifest
from services.agent.predictors.options import OPTION_NAMES
from tests.flow.clusters import REPOSITORY

SHIPPED = sorted((REPOSITORY / "manifests" / "frameworks").glob("*.yml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_options_are_those_of_the_predictor(path: Path) -> None:
    manifest = read_manifest(path)
    assert isinstance(manifest, FrameworkManifest)
    assert set(manifest.options) == set(OPTION_NAMES[manifest.name])
    assert all(manifest.options.values())


def test_every_framework_of_files_is_described() -> None:
    assert {path.stem for path in SHIPPED} >= {"jax", "litert", "openvino", "pytorch", "tensorflow"}
