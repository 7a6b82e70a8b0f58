"""Photographs of packages: each label with its class and a reason, each file what was labelled."""

from hashlib import sha256
from pathlib import Path

import pytest

from mlscope.assets.addresses import PackageSource, parse
from mlscope.assets.packages import installed_file
from mlscope.manifests.reading import read_manifest_text
from schemas.manifest import DatasetManifest, Sample

ROOT = Path(__file__).parents[2] / "manifests"
LABELS = (ROOT / "models" / "efficientnet_lite0" / "labels.txt").read_text().splitlines()


def photos() -> tuple[Sample, ...]:
    """Return the samples."""
    file = ROOT / "datasets" / "package_photos.yml"
    manifest = read_manifest_text(file.read_text(), file.name)
    assert isinstance(manifest, DatasetManifest)
    return manifest.samples


@pytest.mark.parametrize("sample", photos(), ids=lambda sample: Path(sample.path).stem)
def test_classes_are_the_labels_and_have_a_reason(sample: Sample) -> None:
    assert tuple(LABELS[index] for index in sample.classes) == sample.labels
    assert sample.labels
    assert sample.reason


@pytest.mark.parametrize("sample", photos(), ids=lambda sample: Path(sample.path).stem)
def test_a_file_is_the_one_that_was_labelled(sample: Sample) -> None:
    source = parse(sample.path)
    assert isinstance(source, PackageSource)
    installed = installed_file(source)
    if installed is None:
        pytest.skip(f"{source.requirement} is not installed here")
    assert sha256(installed.read_bytes()).hexdigest() == sample.sha256
