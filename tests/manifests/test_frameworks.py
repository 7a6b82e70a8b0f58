"""The shipped framework manifests say which options their predictors take."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlscope.manifests.folders import read_manifest
from schemas.manifest import FrameworkManifest
from tests.flow.clusters import REPOSITORY

SHIPPED = sorted((REPOSITORY / "manifests" / "frameworks").glob("*.yml"))
PREDICTORS = "services.agent.predictors"


def known_by(framework: str) -> set[str]:
    """Return the options that a framework's predictor knows."""
    package = f"{PREDICTORS}.{framework}"
    candidates = (f"{package}.options", f"{package}.predictor")
    module = import_module(package)
    own = next((name for name in candidates if hasattr(module, "__path__") and find_spec(name)), "")
    return set((import_module(own) if own else module).OPTION_NAMES)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_options_are_those_of_the_predictor(path: Path) -> None:
    manifest = read_manifest(path)
    assert isinstance(manifest, FrameworkManifest)
    assert set(manifest.options) == known_by(manifest.name)
    assert all(manifest.options.values())


def test_every_framework_of_files_is_described() -> None:
    assert {path.stem for path in SHIPPED} >= {"jax", "litert", "openvino", "pytorch", "tensorflow"}
