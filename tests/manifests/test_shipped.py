"""The shipped data: it parses, its checksums fit, and the classifier knows its photographs."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from mlscope.load.scenarios import BUILT_IN
from schemas.manifest import DatasetManifest, Manifest, ModelManifest, Sample, ScenarioManifest

ROOT = Path(__file__).parents[2] / "manifests"
FILES = sorted(ROOT.glob("*/*.yml"))
MODELS = [path for path in FILES if path.parent.name == "models"]
SCENARIOS = [path for path in FILES if path.parent.name == "scenarios"]
PHOTOS = ROOT / "datasets" / "photos.yml"
CLASSIFIER = ROOT / "models" / "efficientnet_lite0.yml"


def read(path: Path) -> Manifest:
    manifest: Manifest = TypeAdapter(Manifest).validate_python(yaml.safe_load(path.read_text()))
    return manifest


def model(path: Path) -> ModelManifest:
    manifest = read(path)
    assert isinstance(manifest, ModelManifest)
    return manifest


def photos() -> DatasetManifest:
    manifest = read(PHOTOS)
    assert isinstance(manifest, DatasetManifest)
    return manifest


def assets(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that a model's manifest names, with the checksum it gives."""
    files = model(path).model
    folder = path.parent / files.base_url.removeprefix("file:")
    yield folder / files.graph_path, files.checksum
    for name, checksum in files.assets.items():
        yield folder / name, checksum


def session(path: Path) -> onnxruntime.InferenceSession:
    graph, _ = next(assets(path))
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


def prepared(photo: Path) -> NDArray[np.float32]:
    """Return a photo as [1, 3, 224, 224] by the manifest's steps, written out by hand."""
    image = Image.open(photo).convert("RGB")
    scale = 256 / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    left, top = (width - 224) // 2, (height - 224) // 2
    resized = image.resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(resized.crop((left, top, left + 224, top + 224)), dtype=np.float32)
    return ((pixels - np.float32(127)) / np.float32(128)).transpose(2, 0, 1)[np.newaxis]


@pytest.fixture(scope="module")
def classifier() -> onnxruntime.InferenceSession:
    return session(CLASSIFIER)


@pytest.fixture(scope="module")
def labels() -> list[str]:
    return (CLASSIFIER.parent / "efficientnet_lite0" / "labels.txt").read_text().splitlines()


def top5(classifier: onnxruntime.InferenceSession, labels: list[str], photo: str) -> list[str]:
    (logits,) = classifier.run(["logits"], {"images": prepared(PHOTOS.parent / photo)})
    return [labels[index] for index in np.argsort(logits[0])[:-6:-1]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kind_is_the_folder(path: Path) -> None:
    assert f"{read(path).kind}s" == path.parent.name


def test_no_two_manifests_share_kind_name_and_version() -> None:
    manifests = [read(path) for path in FILES]
    keys = {(manifest.kind, manifest.name, manifest.version) for manifest in manifests}
    assert len(keys) == len(manifests)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model_checksums_fit(path: Path) -> None:
    for file, checksum in assets(path):
        assert f"sha256:{sha256(file.read_bytes()).hexdigest()}" == checksum, file


def test_photo_checksums_fit() -> None:
    for sample in photos().samples:
        assert sha256((PHOTOS.parent / sample.path).read_bytes()).hexdigest() == sample.sha256


def test_every_photo_on_disk_is_a_sample() -> None:
    on_disk = {f"photos/{file.name}" for file in (ROOT / "datasets/photos").glob("*.jpg")}
    assert {sample.path for sample in photos().samples} == on_disk


def test_labels_are_classes_and_have_a_reason(labels: list[str]) -> None:
    assert len(set(labels)) == 1000
    for sample in photos().samples:
        assert sample.reason
        assert set(sample.labels) <= set(labels)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_names_a_shipped_dataset(path: Path) -> None:
    datasets = {read(file).name for file in FILES if file.parent.name == "datasets"}
    assert model(path).dataset in datasets


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_graph_takes_any_batch(path: Path, batch: int) -> None:
    (port,), (result,) = model(path).inputs, model(path).outputs
    values = np.zeros((batch, *port.shape[1:]), dtype=port.element_type)
    (answer,) = session(path).run([result.layer_name], {port.layer_name: values})
    assert answer.shape == (batch, *result.shape[1:])
    assert answer.dtype == result.element_type


def test_identity_gives_back_what_it_gets() -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    (answer,) = session(ROOT / "models" / "identity.yml").run(["y"], {"x": values})
    np.testing.assert_array_equal(answer, values)


@pytest.mark.parametrize("sample", photos().samples, ids=lambda sample: Path(sample.path).stem)
def test_an_accepted_label_is_in_the_top_5(
    classifier: onnxruntime.InferenceSession, labels: list[str], sample: Sample
) -> None:
    assert set(sample.labels) & set(top5(classifier, labels, sample.path))


def test_a_cat_is_a_cat(classifier: onnxruntime.InferenceSession, labels: list[str]) -> None:
    first, *_ = top5(classifier, labels, "photos/chelsea.jpg")
    assert first in {"tabby", "tiger cat", "Egyptian cat"}


class Defaults(dict[str, Any]):
    """Parameters of which none is given; it keeps the defaults that a scenario applies."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the default, and keep it."""
        self[name] = default
        return default


def test_each_built_in_scenario_is_described() -> None:
    assert {path.stem for path in SCENARIOS} == set(BUILT_IN)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_says_its_result_and_defaults(path: Path) -> None:
    scenario = read(path)
    assert isinstance(scenario, ScenarioManifest)
    assert scenario.name == path.stem
    assert "Final performance result is: " in scenario.description
    applied = Defaults()
    BUILT_IN[scenario.name](applied, 1, 1)
    optional = {name for name, default in applied.items() if default is None}
    assert {name: applied[name] for name in applied.keys() - optional} == scenario.parameters
