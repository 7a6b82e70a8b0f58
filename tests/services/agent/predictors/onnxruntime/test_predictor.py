"""ONNX Runtime on real models."""

import ctypes
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import (
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PackageMissing,
    PredictFailed,
)
from services.agent.predictors import (
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    LayerSource,
    OpenRequest,
    Predictor,
    predictor_named,
    predictor_names,
)
from services.agent.predictors.onnxruntime.binding import BoundSession, Device, tensor_place
from services.agent.predictors.onnxruntime.options import options_of
from services.agent.predictors.onnxruntime.predictor import GpuPredictor, open_model
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, PageLocks, page_aligned
from services.agent.worker.files.model_files import AssetFolder, ModelFiles
from tests.services.agent.builders import MANIFESTS, model_named

SLACK_NS = 1_000_000


def request(name: str = "tiny_cnn", batch_size: int = 1, **more: Any) -> OpenRequest:
    model = model_named(name)
    path, body = ModelFiles(AssetFolder(MANIFESTS, "models"), model).graph()
    return OpenRequest(model, path, body, batch_size, **{"options": {"threads": 1}, **more})


def plain_session() -> Any:
    """Return ONNX Runtime's own session of the model, on a CPU."""
    return ort.InferenceSession(request().graph, providers=["CPUExecutionProvider"])


@pytest.fixture
def tiny() -> Iterator[Predictor]:
    predictor = open_model(request())
    yield predictor
    predictor.close()


def images(batch_size: int = 1, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {"images": random.standard_normal((batch_size, 3, 32, 32), np.float32)}


def test_it_is_found_by_name() -> None:
    assert "onnxruntime" in predictor_names()
    assert predictor_named("onnxruntime")(request()).opened.framework == "onnxruntime"


def test_predictions_are_those_of_a_plain_session(tiny: Predictor) -> None:
    plain = plain_session()
    for seed in range(3):
        inputs = images(seed=seed)
        expected = plain.run(None, inputs)[0]
        assert np.allclose(tiny.predict(inputs)["scores"], expected, atol=1e-5)


def test_an_array_may_change_between_calls(tiny: Predictor) -> None:
    inputs = images()
    before = tiny.predict(inputs)["scores"].copy()
    inputs["images"][:] = images(seed=2)["images"]
    after = tiny.predict(inputs)["scores"]
    assert not np.allclose(before, after)
    assert np.allclose(after, tiny.predict(images(seed=2))["scores"])


def test_a_device_s_arrays_are_page_locked_while_they_are_bound() -> None:
    locked: dict[int, int] = {}
    locks = PageLocks(locked.__setitem__, locked.__delitem__)
    plain = plain_session()
    bound = BoundSession(plain, Device("cpu", locks))
    array = page_aligned((1, 3, 32, 32), "float32")
    outputs = bound.predict({"images": array})
    assert locked.keys() == {array.ctypes.data, outputs["scores"].ctypes.data}
    assert locks.host_memory == LOCKED
    bound.forget()
    assert not locked


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ORT copy what is bound, as it does for another device; a CPU's would share the memory."""
    value_of, bind = ort.OrtValue.ortvalue_from_numpy, ort.IOBinding.bind_cpu_input

    def copied(array: Any, device: str) -> Any:
        return value_of(array.copy(), device)

    def bound_copy(binding: Any, name: str, array: Any) -> None:
        bind(binding, name, array.copy())

    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_numpy", copied)
    monkeypatch.setattr(ort.IOBinding, "bind_cpu_input", bound_copy)


@pytest.mark.usefixtures("copying")
def test_a_provider_that_copies_inputs_gets_every_batch_of_a_slot() -> None:
    """ORT copies bound inputs to another device once: each later batch must be copied anew."""
    plain = plain_session()
    bound = BoundSession(plain, Device("cpu"))
    inputs = images()
    for seed in range(3):
        inputs["images"][:] = images(seed=seed)["images"]
        answer = bound.predict(inputs)["scores"]
        assert np.allclose(answer, plain.run(None, inputs)[0], atol=1e-5)


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("copy_out", [None, ctypes.memmove])
def test_a_device_s_call_is_divided_into_its_copies_and_its_computing(copy_out: Any) -> None:
    plain = plain_session()
    bound = BoundSession(plain, Device("cpu", copy_out=copy_out))
    inputs = images()
    for seed in range(2):
        inputs["images"][:] = images(seed=seed)["images"]
        began_ns = now_ns()
        outputs, parts = bound.predict_parts(inputs)
        assert np.allclose(outputs["scores"], plain.run(None, inputs)[0], atol=1e-5)
        assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
        assert parts[0].start_ns >= began_ns
        for part, next_part in pairwise(parts):
            assert part.start_ns + part.duration_ns == next_part.start_ns


@pytest.mark.skipif(
    "CUDAExecutionProvider" in ort.get_available_providers(), reason="this build has the provider"
)
def test_a_provider_that_does_not_load_is_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """ORT would compute on the CPU in its place."""
    names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: names)
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(OpenFailed, match="CUDAExecutionProvider cannot be used"),
    ):
        open_model(request(device="gpu"))


def test_arrays_are_bound_and_not_handed_over(
    tiny: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handed_over(*_: object, **__: object) -> None:
        raise AssertionError("inputs were copied into the session")

    monkeypatch.setattr(ort.InferenceSession, "run", handed_over)
    inputs = images()
    answers = [tiny.predict(inputs)["scores"].ctypes.data for _ in range(2)]
    assert answers[0] == answers[1], "the output has its place, too"


def test_many_arrays_do_not_pile_up(tiny: Predictor) -> None:
    kept = [images(seed=seed) for seed in range(40)]
    answers = [tiny.predict(inputs)["scores"].copy() for inputs in kept]
    assert np.array_equal(tiny.predict(kept[0])["scores"], answers[0])


def test_what_was_opened_is_told(tiny: Predictor) -> None:
    opened = tiny.opened
    assert opened.framework_version == ort.__version__
    assert (opened.provider, opened.device) == ("CPUExecutionProvider", "cpu")
    assert (opened.precision, opened.threads) == ("float32", 1)
    assert opened.options["graph_optimization"] == "all"
    assert opened.load_ns > 0 < opened.first_run_ns
    assert opened.deepest_level == Level.FRAMEWORK
    assert opened.inputs[0].shape == (-1, 3, 32, 32)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"thread": 1}, "option thread must be one of threads, intra_threads"),
        ({"threads": 0}, "option threads must be a whole number from 1"),
        ({"threads": True}, "option threads must be"),
        ({"graph_optimization": "most"}, "must be one of disable, basic, extended, all"),
        ({"spinning": 1}, "option spinning must be true or false"),
        ({"mode": "both"}, "must be one of sequential, parallel"),
        ({"provider": "tpu"}, "option provider must be one of"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption) as caught:
        open_model(request(options=options))
    assert named in str(caught.value)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="has CUDA")
def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BadOption, match="found 'cuda'"):
        open_model(request(device="gpu"))


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("level", ["disable", "basic", "extended", "all"])
def test_options_change_no_answer(tiny: Predictor, mode: str, level: str) -> None:
    options = {"graph_optimization": level, "mode": mode, "threads": 2, "inter_threads": 2}
    other = open_model(request(options=options))
    assert np.allclose(
        other.predict(images())["scores"], tiny.predict(images())["scores"], atol=1e-4
    )


def test_what_is_no_model_is_not_opened() -> None:
    with pytest.raises(OpenFailed, match="cannot open tiny-cnn"):
        open_model(OpenRequest(model_named("tiny_cnn"), Path("m"), b"no model at all", 1))


def test_a_batch_the_model_can_t_take_names_its_input() -> None:
    fixed = fixed_batch(request("identity").graph)
    with pytest.raises(BatchSizeUnsupported) as caught:
        open_model(OpenRequest(model_named("identity"), Path("m"), fixed, 4))
    assert str(caught.value) == "batch size 4 does not fit input x of shape [2, 4]"


def fixed_batch(graph: bytes) -> bytes:
    """Return the identity model with a batch of exactly 2: its free dimension is 'batch'."""
    named = b"\x0a\x07\x12\x05batch"
    assert graph.count(named) == 2
    # dim_value (field 1, varint) in as many bytes as dim_param had: a padded varint of 2
    fixed = b"\x0a\x07\x08\x82\x80\x80\x80\x80\x00"
    return graph.replace(named, fixed)


def test_a_tensor_of_another_shape_fails_the_call(tiny: Predictor) -> None:
    with pytest.raises(PredictFailed, match="Got invalid dimensions"):
        tiny.predict({"images": np.zeros((1, 3, 31, 32), np.float32)})


def test_layers_lie_in_their_call_in_order(tiny: Predictor) -> None:
    assert isinstance(tiny, LayerSource)
    capture = tiny.layers([])
    stamps = []
    for _ in range(3):
        began = now_ns()
        capture.predict(images())
        stamps.append((began, now_ns()))
    calls = capture.close()
    assert [len(layers) for layers in calls] == [8, 8, 8]
    for (began, ended), layers in zip(stamps, calls, strict=True):
        starts = [layer.start_ns for layer in layers]
        assert starts == sorted(starts)
        assert began - SLACK_NS < starts[0] <= layers[-1].start_ns < ended + SLACK_NS
        assert sum(layer.duration_ns for layer in layers) <= ended - began


@pytest.mark.parametrize("warm", [0, 1])
def test_memory_is_measured_in_the_twins_first_run(tiny: Predictor, warm: int) -> None:
    assert isinstance(tiny, LayerSource)
    capture = tiny.layers([images()] * warm)
    for _ in range(2):
        capture.predict(images())
    told = [[json.loads(layer.attributes) for layer in call] for call in capture.close()]
    assert told[0] == told[1]
    assert {each["memory_kind"] for each in told[0]} == {"measured"}
    kept = {each["type"]: (each["memory_bytes"], each["bytes_written"]) for each in told[0]}
    # A view of its input, and what is written into our own array, are not allocated.
    assert kept["Flatten"] == (0, 128)
    assert kept["Gemm"] == (0, 40)
    assert kept["Conv"] == (8192, 8192)


def test_nodes_side_by_side_have_no_memory_of_their_own() -> None:
    parallel = open_model(request(options={"threads": 1, "inter_threads": 2, "mode": "parallel"}))
    assert isinstance(parallel, LayerSource)
    capture = parallel.layers([images()])
    capture.predict(images())
    (call,) = capture.close()
    parallel.close()
    assert {json.loads(layer.attributes)["memory_kind"] for layer in call} == {"outputs"}


def test_fused_layers_name_their_origins(tiny: Predictor) -> None:
    import json

    assert isinstance(tiny, LayerSource)
    capture = tiny.layers([images()])
    capture.predict(images())
    (layers,) = capture.close()
    attributes = {layer.name: json.loads(layer.attributes) for layer in layers}
    assert attributes["relu1"]["original"] == ["conv1", "relu1"]
    assert attributes["relu1"]["type"] == "Conv"
    assert attributes["relu1"]["shape"] == [1, 16, 32, 32]
    originals = [name for layer in attributes.values() for name in layer["original"]]
    assert len(originals) == len(set(originals)) == 9


def test_a_capture_that_outgrows_its_profile_takes_another(
    tiny: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.predictors.onnxruntime.predictor._MAX_EVENTS", 25)
    assert isinstance(tiny, LayerSource)
    capture = tiny.layers([images(), images()])
    for seed in range(5):
        capture.predict(images(seed=seed))
    assert [len(layers) for layers in capture.close()] == [8] * 5


def test_a_capture_leaves_no_file(tmp_path: Path) -> None:
    predictor = open_model(request(scratch=tmp_path))
    capture = predictor.layers([])
    capture.predict(images())
    assert list(tmp_path.iterdir())
    capture.close()
    assert list(tmp_path.iterdir()) == []


def test_free_dimensions_are_minus_one() -> None:
    session = ort.InferenceSession(request().graph, providers=["CPUExecutionProvider"])
    assert tensor_place(session.get_outputs()[0]).shape == (-1, 10)


def test_a_framework_that_is_not_installed_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "services.agent.predictors.onnxruntime.predictor", None)
    with pytest.raises(PackageMissing, match="framework onnxruntime can't be used here"):
        predictor_named("onnxruntime")


class OnCuda:
    """ONNX Runtime's session on a CPU that says its provider is CUDA's."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def get_providers(self) -> list[str]:
        """Return CUDA's name."""
        return ["CUDAExecutionProvider"]


@pytest.mark.parametrize("can_lock", [True, False])
def test_a_gpu_s_memory_is_declared_once_a_call_was_made(*, can_lock: bool) -> None:
    locked: dict[int, int] = {}
    locks = PageLocks(locked.__setitem__, locked.__delitem__) if can_lock else None
    session: Any = OnCuda(plain_session())
    options = options_of({"threads": 1}, "cpu", ort.get_available_providers())
    bound = BoundSession(session, Device("cpu", locks))
    predictor = GpuPredictor(request(), options, bound)
    predictor.predict({"images": page_aligned((1, 3, 32, 32), "float32")})
    kind = LOCKED if can_lock else PAGEABLE
    opened = predictor.opened
    assert (opened.device, opened.host_memory, opened.output_memory) == ("gpu", kind, kind)
    assert ("cuda-python" in opened.memory_reason) is not can_lock
    predictor.close()
