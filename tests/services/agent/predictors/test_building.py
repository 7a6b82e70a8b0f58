"""Builders at import paths: those allowed, and those that manifests of release 0.1 name."""

from pathlib import Path

import pytest
import yaml

from services.agent.default_builders import BUILDERS
from services.agent.errors import OpenFailed
from services.agent.predictors.building import build

MODELS = Path(__file__).parents[4] / "manifests" / "models"


def test_a_builder_that_is_not_allowed_is_not_imported() -> None:
    with pytest.raises(OpenFailed, match=r"builder own\.net is not allowed here; allowed: timm"):
        build("net", "own.net", {}, ["timm"])


@pytest.mark.parametrize("allowed", [BUILDERS, ("services.agent.networks",)])
def test_a_builder_of_release_0_1_still_builds(allowed: tuple[str, ...]) -> None:
    """Old logs, plans and manifests name `services.agent.networks`, which is elsewhere today."""
    pytest.importorskip("torch")
    network = build("net", "services.agent.networks.pytorch.espcn", {"scale": 2}, allowed)
    assert type(network).__module__ == "services.agent.predictors.networks.pytorch"


@pytest.mark.parametrize(
    "path",
    [*sorted((MODELS / "networks").glob("*.yml")), MODELS / "packages" / "all-minilm-l6-v2.yml"],
    ids=lambda path: path.stem,
)
def test_shipped_versions_keep_their_text_of_release_0_1(path: Path) -> None:
    """The registry refuses another text of a version that a cluster has."""
    manifest = yaml.safe_load(path.read_text("utf-8"))
    assert manifest["version"] != "1.0.0" or manifest["model"]["builder"].startswith(
        "services.agent.networks."
    )
