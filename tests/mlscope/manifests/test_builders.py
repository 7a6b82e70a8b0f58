"""Import paths of builders: which an agent's owner allows, and those of release 0.1."""

import pytest

from mlscope.manifests.builders import current_path, is_allowed

OLD, NEW = "services.agent.networks", "services.agent.predictors.networks"


def test_a_builder_is_allowed_below_a_path_of_its_owner() -> None:
    assert is_allowed("timm.create_model", ["torchvision.models", "timm.create_model"])
    assert is_allowed("torchvision.models.resnet18", ["torchvision.models"])
    assert not is_allowed("torchvision.models_of_others.net", ["torchvision.models"])
    assert not is_allowed("timm.create_model", [])


@pytest.mark.parametrize("root", [OLD, NEW])
@pytest.mark.parametrize("allowed", [OLD, NEW, f"{OLD}.pytorch", f"{NEW}.pytorch"])
def test_networks_of_release_0_1_are_allowed_under_both_names(root: str, allowed: str) -> None:
    assert is_allowed(f"{root}.pytorch.espcn", [allowed])
    assert not is_allowed(f"{root}_of_others.pytorch.espcn", [allowed])


def test_only_what_moved_has_another_path() -> None:
    assert current_path(f"{OLD}.jax.espcn") == f"{NEW}.jax.espcn"
    for path in (f"{NEW}.jax.espcn", f"{OLD}_of_others.net", "timm.create_model", ""):
        assert current_path(path) == path
