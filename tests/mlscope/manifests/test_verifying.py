"""Which files nobody can verify, and who takes them all the same."""

from typing import Any

import pytest
import yaml

from mlscope.manifests.checking import faults_in
from mlscope.manifests.reading import read_manifest_text
from mlscope.manifests.verifying import refused_in, unverifiable_in
from schemas.manifest import Assets, ModelManifest

COMMIT = "0123456789" * 4
SUM = "sha256:" + "ab" * 32


def fields(random_weights: bool = False, **assets: Any) -> list[str]:
    """Return the fields that lack a checksum."""
    found = unverifiable_in(Assets(**assets), random_weights=random_weights)
    return [each.field for each in found]


@pytest.mark.parametrize(
    ("base", "may_change"),
    [
        ("https://e.org/", True),
        ("hf://o/r@main/", True),
        (f"hf://o/r@{COMMIT}/", False),
        ("pypi://package==1.0/", False),
        ("artifact://", False),
        ("", False),
        ("nonsense://", False),
    ],
)
def test_what_may_change_needs_a_checksum(base: str, may_change: bool) -> None:
    assert (
        fields(base_url=base, weights_path="w", builder="a.b") == ["weights_checksum"] * may_change
    )
    assert fields(base_url=base, weights_path="w", builder="a.b", weights_checksum=SUM) == []


def test_every_file_that_is_fetched_counts() -> None:
    base: dict[str, Any] = {"base_url": "https://e.org/"}
    assert fields(**base, graph_path="g") == ["checksum"]
    assert fields(**base, graph_path="g", builder="a.b") == []
    assert fields(**base, archive="a.tar", graph_path="g") == ["archive_checksum"]
    assert fields(**base, archive="a.tar", archive_checksum=SUM, graph_path="g") == []
    assert fields(**base, assets={"labels.txt": ""}) == ["assets.labels.txt"]


def test_a_file_counts_by_where_it_is() -> None:
    web = {"m": "https://e.org/m"}
    assert fields(graph_path="m", addresses=web) == ["checksum"]
    assert fields(base_url="https://e.org/", graph_path="m", addresses={"m": "artifact://m"}) == []


def test_random_weights_are_not_fetched() -> None:
    web: dict[str, Any] = {"base_url": "https://e.org/", "weights_path": "w", "builder": "a.b"}
    assert fields(True, **web) == fields(weights="random", **web) == []
    assert fields(True, assets={"l": ""}, **web) == ["assets.l"]


def test_a_request_takes_them_by_its_options() -> None:
    web = Assets(base_url="https://e.org/", weights_path="w", builder="a.b")
    refused = refused_in(web, {"threads": 1})
    assert refused is not None
    assert refused.address == "https://e.org/w"
    assert refused_in(web, {"weights": "unverified"}) is None
    assert refused_in(web, {"weights": "random"}) is None
    labels = web.model_copy(update={"assets": {"l": ""}})
    assert refused_in(labels, {"weights": "random"}) is not None


MANIFEST = """\
name: net
version: 1.0.0
framework: {{name: pytorch}}
inputs: [{{type: raw}}]
outputs: [{{type: raw}}]
model: {first}
frameworks:
- name: onnxruntime
  model: {second}
"""


def test_a_manifest_says_that_a_file_can_t_be_verified() -> None:
    web = "base_url: 'https://e.org/', graph_path: g"
    text = MANIFEST.format(first="{graph_path: g}", second=f"{{{web}}}")
    (fault,) = faults_in(ModelManifest.model_validate(yaml.safe_load(text)))
    assert fault.field == "frameworks.0.model.checksum"
    assert "https://e.org/g" in fault.found
    assert "unverifiable" in fault.allowed
    said = MANIFEST.format(first="{graph_path: g}", second=f"{{{web}, unverifiable: a branch}}")
    assert read_manifest_text(said, "net.yml", "model").version == "1.0.0"
