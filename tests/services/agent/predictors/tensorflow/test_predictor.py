"""TensorFlow on small models: saved, frozen, Keras and built."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.manifest import Assets, ModelManifest
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import OpenRequest, Predictor, predictor_named
from services.agent.predictors.page_locking import PAGEABLE
from services.agent.predictors.tensorflow.options import options_of
from tests.importing_later import imported_later
from tests.pools import tensorflow_pool

__all__ = ["tensorflow_pool"]

tf = imported_later("tensorflow")
tensorflow_models = imported_later("services.agent.predictors.tensorflow.models")
tensorflow_predictor = imported_later("services.agent.predictors.tensorflow.predictor")

# Keras, saving and seeding by NumPy, has yet to learn `copy` of NumPy 2.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:__array__ implementation doesn.t accept a copy:DeprecationWarning"
    ),
]

NETS = "tests.services.agent.predictors.keras_nets"
THREADS = {"threads": 1, "inter_threads": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one model in every form."""
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2 as frozen,
    )

    found = tmp_path_factory.mktemp("models")
    model = bare()
    model.export(found / "saved", verbose=False)
    model.save(found / "m.keras")
    model.save_weights(found / "m.weights.h5")
    for name, size in (("free", None), ("two", 2)):
        spec = tf.TensorSpec((size, 6), tf.float32, name="x")
        concrete = tf.function(lambda x: model(x)).get_concrete_function(spec)
        (found / f"{name}.pb").write_bytes(
            frozen(concrete).graph.as_graph_def().SerializeToString()
        )
    return found


def bare() -> Any:
    from tests.services.agent.predictors import keras_nets

    tf.keras.utils.set_random_seed(3)
    return keras_nets.dense()


def manifest(
    output: str = "scores", shape: tuple[int, ...] = (-1, 6), **assets: Any
) -> ModelManifest:
    return ModelManifest.model_validate(
        {
            "name": "net",
            "version": "1.0.0",
            "framework": {"name": "tensorflow"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": shape}],
            "outputs": [{"type": "raw", "layer_name": output}],
            "model": Assets(**assets),
        }
    )


def request(path: Path, batch_size: int = 2, **more: Any) -> OpenRequest:
    options = {**THREADS, **more.pop("options", {})}
    model = more.pop("model", None)
    if model is None:
        model = manifest("Identity") if path.suffix == ".pb" else manifest()
    graph = path.read_bytes() if path.is_file() else b""
    return OpenRequest(model, path, graph, batch_size, options=options, **more)


def built(builder: str = f"{NETS}.dense", **more: Any) -> OpenRequest:
    assets = {"builder": builder, "weights": "random", "seed": 3, **more.pop("assets", {})}
    more = {"model": manifest(**assets), "builders": (NETS, "keras.applications"), **more}
    return request(Path("none"), **more)


def opened(folder: Path, name: str, **more: Any) -> Predictor:
    opening = built(**more) if name == "builder" else request(folder / name, **more)
    predictor: Predictor = tensorflow_predictor.open_model(opening)
    return predictor


def batch(size: int = 2, seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((size, 6), np.float32)}


def first(answer: Any) -> Any:
    return next(iter(answer.values()))


FORMS = ("saved", "free.pb", "m.keras", "builder")


def test_it_is_found_by_name(folder: Path) -> None:
    opened = predictor_named("tensorflow")(request(folder / "saved")).opened
    assert opened.framework == "tensorflow"


@pytest.mark.parametrize("name", FORMS)
def test_predictions_are_those_of_the_bare_model(folder: Path, name: str) -> None:
    predictor = opened(folder, name)
    for seed in range(3):
        expected = bare()(batch(seed=seed)["x"]).numpy()
        assert np.allclose(first(predictor.predict(batch(seed=seed))), expected, atol=1e-6)
    predictor.close()


@pytest.mark.parametrize("name", FORMS)
def test_what_was_opened_is_said(folder: Path, name: str) -> None:
    told = opened(folder, name).opened
    found = (told.device, told.provider, told.precision, told.threads)
    assert found == ("cpu", "CPU:0", "float32", 1)
    assert [(each.name, each.shape) for each in told.inputs] == [("x", (-1, 6))]
    assert told.outputs[0].name == ("Identity" if name.endswith("pb") else "scores")
    assert min(told.load_ns, told.first_run_ns) > 0


@pytest.mark.parametrize("name", ["saved", "m.keras", "builder"])
def test_compiled_by_xla_it_answers_alike(folder: Path, name: str) -> None:
    predictor = opened(folder, name, options={"jit_compile": True})
    assert predictor.opened.provider == "CPU:0 XLA"
    expected = bare()(batch()["x"]).numpy()
    assert np.allclose(first(predictor.predict(batch())), expected, atol=1e-5)


def test_a_builders_precision_is_what_it_multiplies_in(folder: Path) -> None:
    # Another precision draws other random weights, so these are read.
    weights: Any = {"assets": {"weights": ""}, "weights_path": folder / "m.weights.h5"}
    predictor = tensorflow_predictor.open_model(built(options={"precision": "bfloat16"}, **weights))
    answer = first(predictor.predict({"x": batch()["x"]}))
    assert predictor.opened.precision == "bfloat16"
    assert answer.dtype == np.float32
    assert np.allclose(answer, bare()(batch()["x"]).numpy(), atol=0.1)


def test_a_builder_takes_weights(folder: Path) -> None:
    assets = {"weights": "", "seed": 8}
    predictor = tensorflow_predictor.open_model(
        built(assets=assets, weights_path=folder / "m.weights.h5")
    )
    expected = bare()(batch()["x"]).numpy()
    assert np.allclose(first(predictor.predict(batch())), expected, atol=1e-6)
    with pytest.raises(OpenFailed, match="weights: random"):
        tensorflow_predictor.open_model(built(assets=assets))
    with pytest.raises(OpenFailed, match="weights_path"):
        tensorflow_predictor.open_model(built(assets={"arguments": {"weights": "imagenet"}}))


def test_code_in_a_keras_file_is_refused(folder: Path, tmp_path: Path) -> None:
    rows = tf.keras.layers.Input((6,), name="x")
    tf.keras.Model(rows, tf.keras.layers.Lambda(lambda x: x)(rows)).save(tmp_path / "l.keras")
    with pytest.raises(OpenFailed, match=r"(?i)lambda|unsafe"):
        tensorflow_predictor.open_model(request(tmp_path / "l.keras"))


@pytest.mark.parametrize("name", FORMS)
def test_wrong_inputs_are_an_error_and_the_next_call_is_right(folder: Path, name: str) -> None:
    predictor = opened(folder, name)
    for array in (np.zeros((2, 7), np.float32), np.zeros((2, 6), np.float64)):
        with pytest.raises(PredictFailed):
            predictor.predict({"x": array})
    with pytest.raises(PredictFailed, match="missing"):
        predictor.predict({})
    expected = bare()(batch()["x"]).numpy()
    assert np.allclose(first(predictor.predict(batch())), expected, atol=1e-6)


def test_a_batch_the_model_cannot_take_is_refused(folder: Path) -> None:
    with pytest.raises(BatchSizeUnsupported):
        tensorflow_predictor.open_model(request(folder / "two.pb", batch_size=3))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for name in ("x.pb", "x.keras", "x.bin"):
        (tmp_path / name).write_bytes(b"nonsense" * 9)
        with pytest.raises(OpenFailed, match="net"):
            tensorflow_predictor.open_model(request(tmp_path / name))
    with pytest.raises(OpenFailed, match="SavedModel"):
        tensorflow_predictor.open_model(request(tmp_path))


def test_a_layer_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(OpenFailed, match="'logits'"):
        tensorflow_predictor.open_model(request(folder / "free.pb", model=manifest("logits")))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("saved", {"threads": 0}),
        ("saved", {"precision": "float16"}),
        ("saved", {"speed": 1}),
        ("free.pb", {"jit_compile": True}),
        ("builder", {"precision": "int8"}),
    ],
)
def test_a_wrong_option_is_named(folder: Path, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        opened(folder, name, options=options)


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(BadOption, match="cpu:0"):
        tensorflow_predictor.open_model(request(folder / "saved", device="gpu:7"))


def test_threads_of_a_process_are_set_once(folder: Path) -> None:
    opened(folder, "saved")
    with pytest.raises(OpenFailed, match="threads"):
        opened(folder, "saved", options={"threads": 3})


@pytest.mark.parametrize("name", FORMS)
def test_closing_frees_the_model(folder: Path, name: str) -> None:
    predictor = opened(folder, name)
    held = weakref.ref(predictor._model.session)  # type: ignore[attr-defined]
    predictor.close()
    gc.collect()
    assert held() is None


def test_on_a_gpu_its_arrays_are_declared_pageable(tmp_path: Path) -> None:
    """It stands in for a device: nothing of it is called."""
    options = options_of(THREADS, "gpu", "builder", ["CPU:0", "GPU:0"])
    model = tensorflow_models.Loaded(
        call=lambda arrays: arrays, inputs=(), outputs=(), precision="float32"
    )
    opened = tensorflow_predictor.TensorFlowPredictor(options, model, tmp_path).opened
    assert (opened.device, opened.host_memory, opened.output_memory) == ("gpu", PAGEABLE, PAGEABLE)
    on_cpu = tensorflow_predictor.TensorFlowPredictor(
        options_of(THREADS, "cpu", "builder", ["CPU:0"]), model, tmp_path
    )
    assert (on_cpu.opened.host_memory, on_cpu.opened.output_memory) == ("", "")
