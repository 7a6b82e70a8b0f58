"""Layers of PyTorch models: modules wrapped for a block, and what lies between them."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mlscope.tracing.clock import now_ns  # noqa: E402
from services.agent.errors import PredictFailed  # noqa: E402
from services.agent.predictors import Layer, LayerSource, Predictor  # noqa: E402
from services.agent.predictors.pytorch.opened import PyTorchPredictor  # noqa: E402
from services.agent.predictors.pytorch.options import options_of  # noqa: E402
from services.agent.predictors.pytorch.predictor import open_model  # noqa: E402
from services.agent.predictors.pytorch.tracing import layers as layers_module  # noqa: E402
from tests.services.agent.predictors import nets  # noqa: E402
from tests.services.agent.predictors.pytorch.test_predictor import batch, manifest, request  # noqa: E402

NAMES = [
    "_Layered/mul",
    "first.conv",
    "first.norm",
    "first.act",
    "first/add",
    "first.conv",
    "first.norm",
    "first.act",
    "_Layered/add",
    "scores",
]


@pytest.fixture
def layered() -> Iterator[PyTorchPredictor]:
    predictor = open_model(request(manifest("layered")))
    yield predictor
    predictor.close()


def calls_of(predictor: Predictor, *batches: Any) -> list[list[Layer]]:
    assert isinstance(predictor, LayerSource)
    capture = predictor.layers([batches[0]])
    for each in batches:
        capture.predict(each)
    return capture.close()


def told(layer: Layer) -> Any:
    return json.loads(layer.attributes)


def test_layers_are_the_modules_calls_and_what_lies_between(layered: PyTorchPredictor) -> None:
    (call,) = calls_of(layered, batch())
    assert [layer.name for layer in call] == NAMES
    assert [told(layer)["index"] for layer in call] == list(range(10))
    measured = [index for index, layer in enumerate(call) if told(layer).get("measured")]
    assert measured == [0, 4, 8]


def test_a_layer_says_what_it_is_and_costs(layered: PyTorchPredictor) -> None:
    (call,) = calls_of(layered, batch())
    conv, act = told(call[1]), told(call[3])
    assert (conv["type"], conv["shape"], conv["input_shapes"]) == (
        *("Conv2d", [2, 3, 8, 8], [[2, 3, 8, 8]]),
    )
    assert conv["flops"] == 2 * (2 * 3 * 64) * 27
    assert conv["bytes_read"] == 4 * (2 * 3 * 64 + 81 + 3)
    assert conv["bytes_written"] == 4 * 2 * 3 * 64
    assert (conv["memory_kind"], act["memory_kind"]) == ("measured", "measured")
    # What it reorders for itself is allocated, too.
    assert conv["memory_bytes"] >= conv["bytes_written"]
    assert conv["shared_as"] == ["first.conv", "again.conv"]
    assert (act["memory_bytes"], act["operators"]) == (0, ["aten::relu_"])


def test_calls_lie_in_their_predict_one_layer_after_the_other(layered: PyTorchPredictor) -> None:
    capture = layered.layers([batch()])
    stamps = []
    for _ in range(3):
        began = now_ns()
        capture.predict(batch())
        stamps.append((began, now_ns()))
    for (began, ended), call in zip(stamps, capture.close(), strict=True):
        ends = [layer.start_ns + layer.duration_ns for layer in call]
        assert began <= call[0].start_ns
        assert ends[-1] <= ended
        assert all(end <= after.start_ns for end, after in zip(ends, call[1:], strict=False))


def test_the_model_is_as_before_and_answers_alike(layered: PyTorchPredictor) -> None:
    expected = layered.predict(batch())["scores"].copy()
    capture = layered.layers([batch()])
    assert "forward" in vars(layered.module.first.conv)
    assert np.array_equal(capture.predict(batch())["scores"], expected)
    capture.close()
    assert not any("forward" in vars(module) for module in layered.module.modules())
    assert np.array_equal(layered.predict(batch())["scores"], expected)


def test_a_forward_of_the_instance_s_own_is_put_back(layered: PyTorchPredictor) -> None:
    conv = layered.module.first.conv
    own = conv.forward
    conv.forward = own
    calls_of(layered, batch())
    assert vars(conv)["forward"] is own


def test_modules_that_never_run_are_named(layered: PyTorchPredictor) -> None:
    capture = layered.layers([batch()])
    capture.predict(batch())
    capture.close()
    assert "modules that ran in no call of a block: first.unused" in capture.notes


@pytest.mark.parametrize(
    ("ways", "idle", "stray"),
    [
        ((1,), "negative", ""),
        ((1, -1), "", "half or more of the"),
        ((1, 1, -1), "", "fewer than half of the"),
        ((-1, -1), "positive", "all"),
    ],
)
def test_modules_that_only_other_calls_ran_did_run(
    ways: Sequence[int], idle: str, stray: str
) -> None:
    predictor = open_model(request(manifest("choosing")))
    capture = predictor.layers([{"x": np.abs(batch()["x"])}])
    for way in ways:
        capture.predict({"x": way * np.abs(batch()["x"])})
    capture.close()
    unused = [note for note in capture.notes if "ran in no call" in note]
    assert unused == [f"modules that ran in no call of a block: {idle}"] * bool(idle)
    others = [note.split(" calls")[0] for note in capture.notes if "ran other modules" in note]
    assert others == [stray] * bool(stray)


def test_another_way_through_the_model_has_layers_too() -> None:
    predictor = open_model(request(manifest("choosing")))
    there, other = batch(), {"x": -np.abs(batch()["x"])}
    there["x"] = np.abs(there["x"])
    calls = calls_of(predictor, there, other, there, other)
    names = ["before", "_Choosing/mean", "positive", "_Choosing/add"]
    assert [layer.name for layer in calls[0]] == names
    assert [layer.name for layer in calls[1]] == ["before", "negative"]
    assert [told(layer)["index"] for layer in calls[3]] == [0, 4]
    assert [told(layer)["index"] for layer in calls[2]] == [0, 1, 2, 3]


def test_layers_of_another_thread_say_which() -> None:
    predictor = open_model(request(manifest("threaded")))
    (call,) = calls_of(predictor, batch())
    threads = {layer.name: layer.thread for layer in call}
    assert set(threads) >= {"left", "right"}
    assert threads["left"] != threads["right"]


def test_attention_is_one_layer_though_it_has_modules() -> None:
    predictor = open_model(request(manifest("attending")))
    (call,) = calls_of(predictor, batch())
    assert [told(layer)["type"] for layer in call][-1] == "MultiheadAttention"
    assert "out_proj" not in " ".join(layers_notes(predictor))


def layers_notes(predictor: PyTorchPredictor) -> Any:
    capture = predictor.layers([batch()])
    capture.close()
    return capture.notes


def test_a_call_that_fails_has_no_layers(layered: PyTorchPredictor) -> None:
    capture = layered.layers([batch()])
    with pytest.raises(PredictFailed):
        capture.predict({"x": np.zeros((2, 3, 5, 5), np.float32)})
    capture.predict(batch())
    (call,) = capture.close()
    assert [layer.name for layer in call] == NAMES


def test_a_capture_that_can_t_begin_leaves_nothing(layered: PyTorchPredictor) -> None:
    wrong = {"x": np.zeros((2, 3, 5, 5), np.float32)}
    layered.layers([batch()]).close()
    with pytest.raises(PredictFailed):
        layered.layers([wrong])
    assert not any("forward" in vars(module) for module in layered.module.modules())


def test_a_first_run_is_traced_without_a_run_before_it(layered: PyTorchPredictor) -> None:
    capture = layered.layers(())
    capture.predict(batch())
    (call,) = capture.close()
    assert [layer.name for layer in call] == [name for name in NAMES if "/" not in name]


def test_spans_are_bounded_and_what_is_missing_is_said(
    layered: PyTorchPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers_module, "MAX_SPANS", 15)
    capture = layered.layers([batch()])
    for _ in range(4):
        capture.predict(batch())
    assert [len(call) for call in capture.close()] == [10, 10, 0, 0]
    assert any("its later calls have none" in note for note in capture.notes)


def test_a_model_of_functions_alone_is_told_by_its_operators() -> None:
    predictor = open_model(request(manifest("functional")))
    (call,) = calls_of(predictor, batch())
    names = [layer.name for layer in call]
    assert names[:3] == ["aten::mul", "aten::relu", "aten::add"]
    # What makes arrays of the outputs is the predictor's, not the model's.
    assert not {"aten::to", "aten::detach", "aten::resolve_conj"} & set(names)
    assert told(call[0])["measured"] == "Kineto"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("form", ["exported", "traced", "scripted"])
def test_a_program_s_operators_name_their_modules(form: str, tmp_path: Path) -> None:
    path = tmp_path / ("net.pt2" if form == "exported" else "net.pt")
    model, sample = nets.layered().eval(), torch.from_numpy(batch()["x"])
    if form == "exported":
        torch.export.save(torch.export.export(model, (sample,)), path)
    elif form == "traced":
        torch.jit.trace(model, sample).save(path)
    else:
        torch.jit.script(model).save(path)
    graph = path.read_bytes()
    opening = request(manifest("", graph_path=path.name), graph_path=path, graph=graph)
    predictor = open_model(opening)
    given = batch()
    expected = predictor.predict(given)
    calls = calls_of(predictor, given, given)
    assert [len(calls[0])] * 2 == [len(call) for call in calls]
    assert not {"aten::to", "aten::detach"} & {layer.name for layer in calls[0]}
    places = {layer.name.partition("/")[0]: told(layer) for layer in calls[0]}
    # A script calls batch norm by a function of Python's, which has no module's name.
    known = {"first.conv", "scores"} if form == "scripted" else {"first.conv", "first.norm"}
    assert known <= set(places)
    assert places["first.conv"]["flops"] == 2 * (2 * 3 * 64) * 27
    assert [told(layer)["index"] for layer in calls[1]] == list(range(len(calls[1])))
    for name, array in predictor.predict(given).items():
        assert np.array_equal(array, expected[name])


def test_operators_of_another_thread_are_seen() -> None:
    # A pipeline with steps predicts on a thread that is not the one a capture begins on.
    predictor = open_model(request(manifest("functional")))
    capture = predictor.layers([batch()])
    thread = threading.Thread(target=capture.predict, args=(batch(),))
    thread.start()
    thread.join()
    (call,) = capture.close()
    assert "aten::relu" in [layer.name for layer in call]


def test_another_user_of_the_profiler_is_told_of() -> None:
    predictor = open_model(request(manifest("functional")))
    capture = predictor.layers([batch()])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        capture.predict(batch())
    assert capture.close() == [[]]
    assert any("took PyTorch's profiler" in note for note in capture.notes)


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor compiles C++")
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_model_s_kernels_name_what_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model = nets.small().eval()
    asked = request(options={"compile": "default"})
    options = options_of(asked.options, "cpu", has_gpu=False)
    # Not opened, which would compile it: what is traced is a twin.
    predictor = PyTorchPredictor(asked, options, torch.compile(model))
    with torch._inductor.config.patch(compile_threads=1, cpp_cache_precompile_headers=False):
        (call,) = calls_of(predictor, batch())
    kernels = [each for each in map(told, call) if each["type"] == "cpp kernel"]
    origins = {name for each in kernels for name in each["original"]}
    assert {"0", "1", "2"} <= {name.partition("/")[0] for name in origins}
    assert all("Torch-Compiled Region" in each["region"] for each in kernels)
    assert "aten::addmm" in [layer.name for layer in call]
    assert not {"aten::to", "aten::detach"} & {layer.name for layer in call}
    assert not any("forward" in vars(module) for module in model.modules())
