"""JAX on small functions: built and exported."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.export
import jax.monitoring
from jax.sharding import SingleDeviceSharding

from mlscope.tracing.clock import now_ns
from schemas.manifest import Assets, ModelManifest
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import (
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    OpenRequest,
    PartsSource,
    Predictor,
    predictor_named,
)
from services.agent.predictors.jax import predictor as jax_predictor
from services.agent.predictors.jax.predictor import GpuPredictor, open_model
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, PageLocks, page_aligned
from tests.services.agent.predictors import jax_nets

# XLA's pool is the process's: one process has all tests of JAX.

NETS = "tests.services.agent.predictors.jax_nets"
THREADS = 1


def manifest(builder: str = "dense", inputs: Any = None, **assets: Any) -> ModelManifest:
    if builder:
        assets = {"builder": f"{NETS}.{builder}", **assets}
        if builder == "dense":
            assets = {"weights": "random", "seed": 3, **assets}
    return ModelManifest.model_validate(
        {
            "name": "net",
            "version": "1.0.0",
            "framework": {"name": "jax"},
            "inputs": inputs or [{"type": "raw", "layer_name": "x", "shape": [-1, 6]}],
            "outputs": [{"type": "raw", "layer_name": "scores"}],
            "model": Assets(**assets),
        }
    )


def request(model: ModelManifest | None = None, batch_size: int = 2, **more: Any) -> OpenRequest:
    options = {"threads": THREADS, **more.pop("options", {})}
    more = {"graph_path": Path("net"), "graph": b"", "builders": (NETS,), **more}
    return OpenRequest(model or manifest(), batch_size=batch_size, options=options, **more)


@cache
def _threads_before_jax() -> int:
    """Return the pool threads of other frameworks; asked before the first use of JAX."""
    return jax_predictor._pool_threads()


@pytest.fixture(scope="module", autouse=True)
def _pool_of_one_thread() -> Iterator[None]:
    """XLA's pool is made by the process's first use of JAX, whichever test that is in.

    A worker that had TensorFlow's tests has a pool of the same name, which is not counted.
    """
    pool_threads, other_threads = jax_predictor._pool_threads, _threads_before_jax()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax_predictor, "_pool_threads", lambda: pool_threads() - other_threads)
        open_model(request()).close()
        yield


@pytest.fixture
def opened() -> Iterator[Predictor]:
    predictor = open_model(request())
    yield predictor
    predictor.close()


def batch(size: int = 2, seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((size, 6), np.float32)}


def plain(inputs: dict[str, Any], seed: int = 3) -> Any:
    apply, parameters = jax_nets.dense(seed)
    return np.asarray(jax.jit(apply)(parameters, inputs["x"]))


def exported(rows: Any = "b", platforms: Any = None) -> bytes:
    apply, parameters = jax_nets.dense(3)
    shape = jax.export.symbolic_shape(f"{rows}, 6")
    function = jax.jit(lambda x: apply(parameters, x))
    program = jax.export.export(function, platforms=platforms)(
        jax.ShapeDtypeStruct(shape, np.float32)
    )
    return bytes(program.serialize())


def test_it_is_found_by_name() -> None:
    assert predictor_named("jax")(request()).opened.framework == "jax"


def test_predictions_are_those_of_the_bare_function(opened: Predictor) -> None:
    for seed in range(3):
        inputs = batch(seed=seed)
        assert np.array_equal(opened.predict(inputs)["scores"], plain(inputs))


@pytest.mark.parametrize("rows", ["b", 2])
def test_an_exported_program_answers_alike(rows: Any) -> None:
    model = manifest("", format="jax_export")
    predictor = open_model(request(model, graph=exported(rows)))
    assert predictor.opened.inputs[0].shape == (-1 if rows == "b" else 2, 6)
    assert predictor.opened.precision == "float32"
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch()), atol=1e-6)


def test_answers_do_not_change_with_the_inputs() -> None:
    predictor = open_model(request(manifest("same")))
    inputs = batch(2)
    answer = predictor.predict(inputs)["scores"]
    inputs["x"][:] = 7
    assert np.array_equal(answer, batch(2)["x"])
    assert (predictor.predict(inputs)["scores"] == 7).all()


def test_another_seed_is_another_model() -> None:
    other = open_model(request(manifest(seed=4)))
    assert np.array_equal(other.predict(batch())["scores"], plain(batch(), seed=4))
    assert not np.allclose(other.predict(batch())["scores"], plain(batch()))


def test_what_was_opened_is_said(opened: Predictor) -> None:
    told = opened.opened
    assert (told.device, told.provider, told.precision) == ("cpu", "XLA cpu", "float32")
    assert (told.threads, told.outputs[0].shape) == (THREADS, (-1, 4))
    assert min(told.load_ns, told.first_run_ns) > 0


def test_precision_is_what_is_multiplied_in() -> None:
    predictor = open_model(request(options={"precision": "bfloat16"}))
    answer = predictor.predict(batch())["scores"]
    assert predictor.opened.precision == "bfloat16"
    assert answer.dtype == np.float32
    assert np.allclose(answer, plain(batch()), atol=0.1)
    assert not np.array_equal(answer, plain(batch()))


def test_several_inputs_are_given_by_name() -> None:
    shapes = [("b", [-1, 2]), ("a", [-1, 2])]
    inputs = [{"type": "raw", "layer_name": n, "shape": s} for n, s in shapes]
    predictor = open_model(request(manifest("difference", inputs)))
    a, b = np.full((2, 2), 5, np.float32), np.full((2, 2), 3, np.float32)
    answer = predictor.predict({"b": b, "a": a})
    assert np.array_equal(answer["scores"], a - b)
    assert np.array_equal(answer["more.0"], a)


def test_weights_are_read_by_their_path(tmp_path: Path) -> None:
    _, parameters = jax_nets.dense(9)
    layer = parameters["layer"]
    held = {"layer.kernel": layer["kernel"], "layer.bias": layer["bias"]}
    np.savez(tmp_path / "w.npz", **held)
    model = manifest(weights="")
    predictor = open_model(request(model, weights_path=tmp_path / "w.npz"))
    assert np.allclose(predictor.predict(batch())["scores"], plain(batch(), seed=9))
    np.savez(tmp_path / "bad.npz", **{**held, "layer.bias": np.ones(5)})
    with pytest.raises(OpenFailed, match=r"layer\.bias"):
        open_model(request(model, weights_path=tmp_path / "bad.npz"))


@pytest.mark.parametrize("array", [np.zeros((2, 5), np.float32), np.zeros((2, 6), np.float64)])
def test_another_shape_is_refused_and_the_next_call_is_right(opened: Predictor, array: Any) -> None:
    with pytest.raises(PredictFailed, match="opened for"):
        opened.predict({"x": array})
    with pytest.raises(PredictFailed, match="missing"):
        opened.predict({})
    assert np.array_equal(opened.predict(batch())["scores"], plain(batch()))


def test_a_batch_the_program_cannot_take_is_refused() -> None:
    with pytest.raises(BatchSizeUnsupported):
        open_model(request(manifest("", format="jax_export"), batch_size=3, graph=exported(2)))


@pytest.mark.parametrize("graph", [b"nonsense" * 9, b"\x00"])
def test_what_is_no_program_is_refused(graph: bytes) -> None:
    with pytest.raises(OpenFailed, match="net"):
        open_model(request(manifest("", format="jax_export"), graph=graph))


@pytest.mark.parametrize(("builder", "told"), [("fails", "no such luck"), ("none", "none")])
def test_a_builder_that_will_not_do_is_named(builder: str, told: str) -> None:
    with pytest.raises(OpenFailed, match=told):
        open_model(request(manifest(builder)))


def test_a_builder_without_weights_is_refused() -> None:
    with pytest.raises(OpenFailed, match="weights: random"):
        open_model(request(manifest(weights="")))


@pytest.mark.parametrize(
    "options", [{"threads": 0}, {"precision": "float16"}, {"matmul_precision": "low"}]
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(options))):
        open_model(request(options=options))


def test_an_exported_programs_precision_is_its_own() -> None:
    model = manifest("", format="jax_export")
    with pytest.raises(BadOption, match="its own"):
        open_model(request(model, graph=exported(), options={"precision": "bfloat16"}))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BadOption, match="device"):
        open_model(request(device="gpu:7"))


def test_threads_of_a_process_are_set_once(opened: Predictor) -> None:
    with pytest.raises(OpenFailed, match="threads"):
        open_model(request(options={"threads": THREADS + 7}))


def test_closing_frees_the_parameters() -> None:
    predictor = open_model(request())
    kernel = weakref.ref(predictor._parameters["layer"]["kernel"])
    predictor.close()
    gc.collect()
    assert kernel() is None


class AGpu:
    """A device of JAX that says it is a GPU."""

    platform = "gpu"

    def __init__(self, device: Any) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuPredictor]:
    """Open a model on the CPU, which says it is a GPU; CUDA locks pages there."""
    locked: dict[int, int] = {}
    locks = PageLocks(locked.__setitem__, locked.__delitem__)
    monkeypatch.setattr(jax_predictor, "cuda_page_locks", lambda: locks)
    set_up, put = jax_predictor._set_up_device, jax.device_put
    monkeypatch.setattr(jax_predictor, "_set_up_device", lambda options: AGpu(set_up(options)))
    monkeypatch.setattr(
        jax_predictor,
        "SingleDeviceSharding",
        lambda a_gpu, **kind: SingleDeviceSharding(a_gpu._device, **kind),
    )
    monkeypatch.setattr(jax, "default_device", lambda _: nullcontext())

    def put_there(value: Any, to: Any = None) -> Any:
        return put(value, getattr(to, "_device", to))

    monkeypatch.setattr(jax, "device_put", put_there)
    predictor = open_model(request())
    assert isinstance(predictor, GpuPredictor)
    yield predictor
    predictor.close()
    assert locked == {}


def test_on_a_gpu_the_memory_of_arrays_is_declared(on_gpu: GpuPredictor) -> None:
    opened = on_gpu.opened
    assert (opened.device, opened.host_memory, opened.output_memory) == ("gpu", PAGEABLE, LOCKED)
    on_gpu.predict({"x": page_aligned((2, 6), "float32")})
    assert (on_gpu.opened.host_memory, on_gpu.opened.memory_reason) == (LOCKED, "")
    on_gpu.predict(batch())
    assert on_gpu.opened.host_memory == PAGEABLE
    assert "shares its pages" in on_gpu.opened.memory_reason


def test_on_a_gpu_no_call_behind_the_opening_compiles(on_gpu: GpuPredictor) -> None:
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    outputs = on_gpu.predict(batch())
    jax.monitoring.clear_event_listeners()
    assert events == []
    assert np.allclose(outputs["scores"], plain(batch()), atol=1e-5)


def test_the_parts_of_a_call_follow_each_other_within_it(on_gpu: GpuPredictor) -> None:
    inputs = {"x": page_aligned((2, 6), "float32")}
    inputs["x"][...] = batch()["x"]
    on_gpu.predict(inputs)
    began_ns = now_ns()
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    outputs, parts = on_gpu.predict_parts(inputs)
    jax.monitoring.clear_event_listeners()
    assert events == [], "it is compiled anew"
    assert np.allclose(outputs["scores"], plain(inputs), atol=1e-5)
    assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
    assert parts[0].start_ns >= began_ns
    for part, later in pairwise(parts):
        assert part.start_ns + part.duration_ns == later.start_ns
    assert parts[-1].start_ns + parts[-1].duration_ns <= now_ns()
    with pytest.raises(PredictFailed, match="is missing"):
        on_gpu.predict_parts({})


def test_on_a_cpu_nothing_is_copied(opened: Predictor) -> None:
    assert not isinstance(opened, PartsSource)
    assert (opened.opened.host_memory, opened.opened.output_memory) == ("", "")
