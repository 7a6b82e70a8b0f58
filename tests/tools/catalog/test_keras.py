"""What the catalog says of Keras' models gives what Keras itself would."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from tests.pools import tensorflow_pool
from tools.catalog.keras import input_of, weights_of

__all__ = ["tensorflow_pool"]


MODELS = Path(__file__).parents[3] / "manifests" / "models" / "keras"
WITHOUT_CHECKSUM = {"keras-mobilenet", "keras-mobilenetv2"}
"""Keras brings their weights without a file_hash: whatever came would be believed."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""What EfficientNets' published weights hold as mean and, by mistake, as variance."""

Picture = NDArray[np.float32]


def normalized(name: str, pixels: Picture) -> Picture:
    """Return a picture as a shipped manifest's own step makes it; shapes [height, width, 3]."""
    steps = yaml.safe_load((MODELS / f"{name}.yml").read_text())["inputs"][0]["steps"]
    (step,) = [each for each in steps if "normalize" in each]
    changed = (pixels - np.array(step["mean"])) / np.array(step["scale"])
    return np.asarray(changed, np.float32)


def stem(keras: Any, model: Any, picture: Picture) -> NDArray[np.float32]:
    """Return what a model's first convolution makes of a picture."""
    part = keras.Model(model.input, model.get_layer("stem_conv").output)
    answer = part(picture[np.newaxis], training=False)
    return np.asarray(keras.ops.convert_to_numpy(answer))


def published(keras: Any, path: Path) -> Any:
    """Save weights such as the published ones to a file; return the model that has them."""
    model = keras.applications.EfficientNetB0(weights=None)
    values = model.get_weights()
    values[0], values[1] = np.array(MEAN, np.float32), np.array(DEVIATION, np.float32)
    assert values[0].shape == model.weights[0].shape == (3,)
    model.set_weights(values)
    model.save_weights(path)
    plain = keras.applications.EfficientNetB0(weights=None)
    plain.load_weights(path)
    return plain


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
@pytest.mark.timeout(600)
def test_an_efficientnet_built_without_weights_sees_what_keras_own_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras = pytest.importorskip("keras")
    path = tmp_path / "published.weights.h5"
    plain = published(keras, path)
    monkeypatch.setattr("keras.src.utils.file_utils.get_file", lambda *_, **__: str(path))
    whole = keras.applications.EfficientNetB0(weights="imagenet")
    pixels = np.random.default_rng(0).uniform(0, 255, (224, 224, 3)).astype(np.float32)
    wanted = stem(keras, whole, pixels)
    found = stem(keras, plain, normalized("keras-efficientnetb0", pixels))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert np.abs(stem(keras, plain, pixels) - wanted).max() > 0.1


def test_every_efficientnet_is_prepared_alike() -> None:
    pixels = np.full((1, 1, 3), 100, np.float32)
    prepared = {normalized(f"keras-efficientnetb{n}", pixels).tobytes() for n in range(8)}
    assert len(prepared) == 1
    np.testing.assert_array_equal(normalized("keras-efficientnetv2b0", pixels), pixels)


def test_all_but_those_without_checksum_name_their_weights() -> None:
    written = [yaml.safe_load(path.read_text()) for path in MODELS.glob("*.yml")]
    assert len(written) == 40
    random = {each["name"] for each in written if each["model"].get("weights") == "random"}
    assert random == WITHOUT_CHECKSUM
    for each in written:
        if each["name"] not in random:
            assert each["model"]["base_url"].startswith("https://storage.googleapis.com/")
            assert each["model"]["weights_path"].endswith(".h5")
            assert each["model"]["weights_checksum"].startswith(("md5:", "sha256:"))


def asking(**asked: str) -> Any:
    """Return a builder that brings its weights as Keras' do."""

    def build(weights: str) -> None:
        assert weights == "imagenet"
        files = pytest.importorskip("keras.src.utils.file_utils")
        files.get_file("net.h5", "https://there.org/nets/net-v1.h5", cache_subdir="m", **asked)

    return build


def test_weights_are_what_a_builder_brings() -> None:
    pytest.importorskip("keras")
    assert weights_of(asking(file_hash="0123" * 8)) == {
        "base_url": "https://there.org/nets/",
        "weights_path": "net-v1.h5",
        "weights_checksum": f"md5:{'0123' * 8}",
    }
    assert weights_of(asking()) == {}


def test_only_rooted_parts_are_written_in_more_places() -> None:
    steps = {part: input_of(part, 3, 8, 8)["steps"][2] for part in ("efficientnet", "densenet")}
    assert steps["efficientnet"]["scale"] == [0.4785394, 0.4732864, 0.4743416]
    assert steps["densenet"]["scale"] == [58.395, 57.12, 57.375]
