"""A catalog that is read fast."""

import shutil
from pathlib import Path

import pytest

SHIPPED = Path(__file__).resolve().parents[2] / "manifests"
FEW = (
    "datasets/vectors.yml",
    "models/identity",
    "models/identity.yml",
    "scenarios/fixed_rate.yml",
    "scenarios/online.yml",
)


@pytest.fixture(scope="session")
def few_manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the manifests of one model, one dataset and two scenarios."""
    folder = tmp_path_factory.mktemp("manifests")
    for name in FEW:
        copy = shutil.copytree if (SHIPPED / name).is_dir() else shutil.copy
        (folder / name).parent.mkdir(exist_ok=True)
        copy(SHIPPED / name, folder / name)
    return folder
