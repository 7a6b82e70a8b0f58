"""PyTorch on real modules: built, scripted, exported and compiled."""

import gc
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from schemas.manifest import Assets, ModelManifest  # noqa: E402
from services.agent.errors import BadOption, OpenFailed, PredictFailed  # noqa: E402
from services.agent.predictors import OpenRequest, Predictor, predictor_named  # noqa: E402
from services.agent.predictors.pytorch.outputs import leaves_of  # noqa: E402
from services.agent.predictors.pytorch.predictor import open_model  # noqa: E402
from tests.services.agent.predictors import nets  # noqa: E402

NETS = "tests.services.agent.predictors.nets"


def manifest(builder: str = "small", inputs: Any = None, **assets: Any) -> ModelManifest:
    if builder:
        path = builder if "." in builder else f"{NETS}.{builder}"
        assets = {"builder": path, "weights": "random", "seed": 3, **assets}
    return ModelManifest.model_validate(
        {
            "name": "net",
            "version": "1.0.0",
            "framework": {"name": "pytorch"},
            "inputs": inputs or [{"type": "raw", "layer_name": "x", "shape": [-1, 3, 8, 8]}],
            "outputs": [{"type": "raw", "layer_name": "scores"}],
            "model": Assets(**assets),
        }
    )


def request(model: ModelManifest | None = None, batch_size: int = 2, **more: Any) -> OpenRequest:
    options = {"threads": 1, **more.pop("options", {})}
    more = {"graph_path": Path("net.pt"), "graph": b"", "builders": (NETS,), **more}
    return OpenRequest(model or manifest(), batch_size=batch_size, options=options, **more)


@pytest.fixture
def opened() -> Iterator[Predictor]:
    predictor = open_model(request())
    yield predictor
    predictor.close()


def batch(size: int = 2, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((size, 3, 8, 8), np.float32)}


def test_a_request_may_ask_for_random_weights() -> None:
    model = manifest(weights="", weights_path="absent.pth")
    with pytest.raises(OpenFailed, match="weights_path"):
        open_model(request(model))
    predictor = open_model(request(model, options={"weights": "random"}))
    assert np.array_equal(predictor.predict(batch())["scores"], plain(batch()))
    predictor.close()


def plain(inputs: dict[str, Any], seed: int = 3) -> Any:
    torch.manual_seed(seed)
    module = nets.small().eval()
    with torch.inference_mode():
        return module(torch.from_numpy(inputs["x"])).numpy()


def test_it_is_found_by_name() -> None:
    assert predictor_named("pytorch")(request()).opened.framework == "pytorch"


def test_predictions_are_those_of_the_bare_module(opened: Predictor) -> None:
    for seed in range(3):
        inputs = batch(seed=seed)
        assert np.array_equal(opened.predict(inputs)["scores"], plain(inputs))


def test_an_array_may_change_between_calls(opened: Predictor) -> None:
    inputs = batch()
    before = opened.predict(inputs)["scores"].copy()
    inputs["x"][:] = batch(seed=2)["x"]
    assert np.array_equal(opened.predict(inputs)["scores"], plain(batch(seed=2)))
    assert not np.array_equal(before, opened.predict(inputs)["scores"])


def test_another_seed_is_another_model() -> None:
    other = open_model(request(manifest(seed=4)))
    assert not np.allclose(other.predict(batch())["scores"], plain(batch()))


def test_what_was_opened_is_said(opened: Predictor) -> None:
    told = opened.opened
    assert (told.device, told.precision, told.threads) == ("cpu", "float32", 1)
    assert told.provider.startswith("cpu (")
    assert told.outputs[0].shape == (-1, 5)
    assert told.load_ns > 0
    assert told.first_run_ns > 0


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torchscript_and_exported_programs_answer_alike() -> None:
    torch.manual_seed(3)
    module = nets.small().eval()
    example = torch.zeros(2, 3, 8, 8)
    scripted, exported = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.script(module), scripted)
    torch.export.save(torch.export.export(module, (example,)), exported)
    for name, form in (("net.pt", scripted), ("net.pt2", exported)):
        model = manifest(builder="", graph_path=name)
        predictor = open_model(request(model, graph=form.getvalue(), graph_path=Path(name)))
        assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_captured_model_answers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of `torch.compile` but its compiler, which takes half a minute."""
    graphs, modes, real = [], [], torch.compile

    def keep(graph: Any, _: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    def captured(module: Any, mode: str | None) -> Any:
        modes.append(mode)
        return real(module, backend=keep)

    monkeypatch.setattr(torch, "compile", captured)
    predictor = open_model(request(options={"compile": "reduce-overhead"}))
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)
    assert predictor.opened.options["compile"] == "reduce-overhead"
    assert modes == ["reduce-overhead"]
    assert graphs, "nothing was captured"
    predictor.close()


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="inductor compiles C++")
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_model_answers_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    # Inductor's own patch: its configuration takes a restored attribute for one that was set.
    with torch._inductor.config.patch(compile_threads=1):
        predictor = open_model(request(options={"compile": "default"}))
        assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)
    assert predictor.opened.options["compile"] == "default"
    assert any(tmp_path.rglob("*.so")), "nothing was compiled"
    predictor.close()


def test_weights_are_read_without_pickles(tmp_path: Path) -> None:
    torch.manual_seed(9)
    torch.save(nets.small().state_dict(), tmp_path / "w.pth")
    model = manifest(weights="")
    predictor = open_model(request(model, weights_path=tmp_path / "w.pth"))
    assert np.array_equal(predictor.predict(batch())["scores"], plain(batch(), seed=9))


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    torch.save(nets.small(), tmp_path / "w.pth")
    with pytest.raises(OpenFailed, match=r"w\.pth is a pickle of more than tensors"):
        open_model(request(manifest(weights=""), weights_path=tmp_path / "w.pth"))


def test_precision_is_what_the_weights_are_in() -> None:
    predictor = open_model(request(options={"precision": "bfloat16"}))
    assert predictor.opened.precision == "bfloat16"
    answer = predictor.predict(batch())["scores"]
    assert answer.dtype == np.float32
    assert np.allclose(answer, plain(batch()), atol=0.05)


def test_channels_last_answers_alike() -> None:
    predictor = open_model(request(options={"channels_last": True}))
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)


def test_several_inputs_are_given_by_name() -> None:
    shapes = [("b", [-1, 2]), ("a", [-1, 2])]
    inputs = [{"type": "raw", "layer_name": n, "shape": s} for n, s in shapes]
    predictor = open_model(request(manifest("difference", inputs)))
    a, b = np.full((2, 2), 5, np.float32), np.full((2, 2), 3, np.float32)
    assert np.array_equal(predictor.predict({"b": b, "a": a})["scores"], a - b)


def test_a_list_of_samples_is_what_detectors_take() -> None:
    predictor = open_model(request(manifest("detector"), options={"call": "list"}))
    answer = predictor.predict(batch())
    assert answer["scores"].shape == (3,)
    assert answer["1.boxes"].shape == (0, 4)


def test_an_error_of_the_model_is_told(opened: Predictor) -> None:
    with pytest.raises(PredictFailed, match="shapes cannot be multiplied"):
        opened.predict({"x": np.zeros((2, 3, 3, 3), np.float32)})


@pytest.mark.parametrize(
    ("builder", "told"),
    [
        ("os.system", "not allowed"),
        (f"{NETS}x.small", "not allowed"),
        (f"{NETS}.nothing", "nothing"),
        (f"{NETS}.A_NUMBER", "is not a function"),
        (f"{NETS}.fails", "no such luck"),
    ],
)
def test_a_builder_that_will_not_do_is_named(builder: str, told: str) -> None:
    with pytest.raises(OpenFailed, match=told):
        open_model(request(manifest(builder=builder)))


def test_a_builder_without_weights_is_refused() -> None:
    with pytest.raises(OpenFailed, match="weights: random"):
        open_model(request(manifest(weights="")))


def test_an_unknown_format_is_refused() -> None:
    model = manifest(builder="", graph_path="net.bin")
    with pytest.raises(OpenFailed, match="torchscript, exported"):
        open_model(request(model, graph_path=Path("net.bin")))


@pytest.mark.parametrize(
    "options", [{"threads": 0}, {"precision": "int3"}, {"compile": "fast"}, {"graphs": True}]
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(options=options))


@pytest.mark.filterwarnings("ignore")
def test_quantized_layers_are_named_as_the_precision() -> None:
    predictor = open_model(request(manifest("quantized")))
    assert predictor.opened.precision == "int8 (quantized float32)"
    predictor.close()


@pytest.mark.filterwarnings("ignore")
def test_quantized_layers_are_not_opened_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their calls may end the process there."""
    model = manifest("quantized")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(BadOption, match="quantized layers only for CPUs"):
        open_model(request(model, device="gpu"))


def test_closing_frees_the_weights() -> None:
    predictor = open_model(request(manifest("large")))
    del predictor.opened
    weights = nets.LIVE[-1]
    assert weights() is not None
    predictor.close()
    gc.collect()
    assert weights() is None


def test_leaves_are_named_by_their_path() -> None:
    answer = {"a": torch.zeros(1), "b": [torch.ones(2), {"c": torch.ones(3)}], "d": "text"}
    found = leaves_of(answer, ["a"])
    assert {name: len(array) for name, array in found.items()} == {"a": 1, "b.0": 2, "b.1.c": 3}
    assert list(leaves_of((torch.zeros(1), torch.zeros(2)), ["x"])) == ["x", "1"]
