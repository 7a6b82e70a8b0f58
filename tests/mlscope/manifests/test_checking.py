"""What parses and is wrong all the same."""

from typing import Any

import pytest

from mlscope.manifests.checking import faults_in
from schemas.manifest import DatasetManifest, ScenarioManifest

FILE = {"path": "a.png", "sha256": "00"}


@pytest.mark.parametrize(
    ("sample", "field"),
    [
        ({}, "samples.1"),
        ({**FILE, "inputs": {"x": FILE}}, "samples.1"),
        ({"path": "a.png"}, "samples.1.sha256"),
    ],
)
def test_a_sample_is_one_checked_file_or_one_for_each_input(
    sample: dict[str, Any], field: str
) -> None:
    dataset = DatasetManifest.model_validate({"name": "d", "samples": [FILE, sample]})
    (fault,) = faults_in(dataset)
    assert fault.field == field


def test_what_is_right_has_no_fault() -> None:
    samples = [FILE, {"inputs": {"x": FILE, "y": FILE}}]
    assert not list(faults_in(DatasetManifest.model_validate({"name": "d", "samples": samples})))
    assert not list(faults_in(ScenarioManifest(name="s")))
