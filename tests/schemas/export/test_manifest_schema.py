"""The schema for editors takes every manifest that reads, and marks what does not."""

from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from schemas.export.manifest_schema import manifest_schema
from schemas.manifest.operators import OPERATORS
from tests.places import LISTINGS

SHIPPED = Path(__file__).parents[3] / "manifests"
VALIDATOR = jsonschema.Draft202012Validator(manifest_schema())


def faults(manifest: Any) -> list[str]:
    """Return where a manifest is wrong, deepest first, and how."""
    found = sorted(VALIDATOR.iter_errors(manifest), key=lambda each: -len(each.absolute_path))
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]


def identity(**changes: Any) -> dict[str, Any]:
    """Return a small model's manifest."""
    text = (SHIPPED / "models" / "identity.yml").read_text()
    return {**yaml.safe_load(text), **changes}


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(manifest_schema())


def test_everything_shipped_passes() -> None:
    files = sorted(SHIPPED.rglob("*.yml"))
    assert len(files) > 500
    for path in files:
        assert faults(yaml.safe_load(path.read_text())) == [], path


def test_the_papers_listings_pass_as_they_stand() -> None:
    model = yaml.safe_load((LISTINGS / "model_manifest_listing1.yml").read_text())
    assert faults(model) == []
    framework = yaml.safe_load((LISTINGS / "framework_manifest_listing2.yml").read_text())
    assert faults({"kind": "framework", **framework}) == []


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"licence": "MIT"}, "licence"),
        ({"version": 1}, "version"),
        ({"inputs": [{"type": "raw", "shape": ["a"]}]}, "inputs.0.shape.0"),
        ({"inputs": [{"type": "raw", "steps": ["levitate"]}]}, "inputs.0.steps.0"),
        ({"inputs": [{"type": "raw", "steps": [{"levitate": None}]}]}, "inputs.0.steps.0"),
        ({"preprocess": [["data"]]}, "preprocess"),
        ({"model": {"graph": "x"}}, "model"),
        ({"model": {"weights": "best"}}, "model.weights"),
        ({"kind": "dataset"}, "framework"),
    ],
)
def test_what_does_not_read_is_marked(changes: dict[str, Any], place: str) -> None:
    assert any(place in each for each in faults(identity(**changes))), faults(identity(**changes))


def test_a_model_needs_a_framework_of_one_form_or_the_other() -> None:
    several = identity(frameworks=[{"name": "pytorch"}])
    del several["framework"]
    assert faults(several) == []
    del several["frameworks"]
    assert faults(several)


@pytest.mark.parametrize("step", ["decode", {"decode": None, "color_mode": "RGB"}])
def test_a_step_is_written_in_each_form(step: Any) -> None:
    assert "decode" in OPERATORS
    forms = [step, {"operator": "decode", "parameters": {}}]
    assert faults(identity(inputs=[{"type": "image", "steps": forms}])) == []
