"""JAX: exported programs and builders' functions, compiled by XLA for one shape.

XLA compiles in the first run. For inputs of another shape or type it would silently compile again,
so they are refused. On a GPU a predict call ends when its outputs are in the host's memory.
"""

import gc
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import (
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PredictFailed,
)
from services.agent.predictors import (
    MAX_BOUND,
    CallPart,
    LayerCapture,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
    call_parts,
)
from services.agent.predictors.boundary import PREDICTING, opening_model
from services.agent.predictors.cuda_runtime import NO_LOCKS, cuda_page_locks
from services.agent.predictors.jax.layers import ProfiledCapture
from services.agent.predictors.jax.options import Options, options_of
from services.agent.predictors.jax.program import (
    Program,
    built_program,
    computed_in,
    exported_program,
    is_exported,
    path_name,
)
from services.agent.predictors.naming import names_for
from services.agent.predictors.opening import Opening
from services.agent.predictors.page_locking import LOCKED, PAGEABLE
from services.agent.predictors.shapes import first_line, without_bfloat16, zeros
from services.agent.predictors.xla.graphs import GRAPHS
from services.agent.predictors.xla.program import Program as Compiled
from services.agent.predictors.xla.program import program_of

_THREADS = ("PJRT_NPROC", "NPROC")
_TASKS = Path("/proc/self/task")
_POOL_THREAD = "tf_XLAEigen"
_PINNED = "pinned_host"
_GPU_PRECISIONS = {
    **dict.fromkeys(("default", "high", "tensorfloat32"), "float32 (tf32 allowed)"),
    "bfloat16": "float32 (bfloat16 products)",
}
"""What a float32 model computes in on a GPU, by the precision of its matrix products."""


def open_model(request: OpenRequest) -> "JaxPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    exported = is_exported(request)
    options = options_of(request.options, request.device, exported=exported)
    device = _set_up_device(options)
    opening = Opening(request)
    with opening_model(request.model.name), jax.default_device(device):
        program = (
            exported_program(request) if exported else built_program(request, options.precision)
        )
        kind = GpuPredictor if device.platform == "gpu" else JaxPredictor
        predictor = kind(request, options, program, device)
    opening.mark_loaded()
    outputs = opening.run_first(predictor, predictor.filled)
    with opening_model(request.model.name):
        predictor.settle(outputs)
    return predictor


class JaxPredictor:
    """An opened JAX model."""

    def __init__(
        self, request: OpenRequest, options: Options, program: Program, device: Any
    ) -> None:
        """Trace `program` for the request's batch size; `device` is one of JAX's devices.

        The `options` name the precision of matrix products. Raises BatchSizeUnsupported, OpenFailed
        and whatever a traced function raises.
        """
        self._request = request
        self._options = options
        self._device = device
        self._inputs = program.inputs
        #: zeros in the shapes that it is traced for, until the first run is over
        self.filled = zeros(program.inputs, request.model.inputs, request.batch_size)
        self._expected = {name: (a.shape, a.dtype) for name, a in self.filled.items()}
        self._parameters = jax.device_put(program.parameters, device)
        self._call = jax.jit(_in_matmul_precision(program.function, options.matmul_precision))
        self._names: list[str] | None = None
        self._compiled: Compiled | None = None
        precision = self._trace()
        # Arrays of the host go to the device that a call's context names.
        self._device_context: Callable[[], AbstractContextManager[Any]] = (
            nullcontext if device == jax.devices()[0] else lambda: jax.default_device(device)
        )
        is_on_gpu = device.platform == "gpu"
        self._locks = cuda_page_locks() if is_on_gpu else None
        #: the arrays of earlier calls that were page-locked
        self._bound: dict[int, Tensors] = {}
        kinds = [memory.kind for memory in device.addressable_memories()] if is_on_gpu else []
        #: page-locked memory of the host, as JAX names a place; None where it has none
        self._host = SingleDeviceSharding(device, memory_kind=_PINNED) if _PINNED in kinds else None
        #: copies a call's outputs into that memory; None until the first run is over
        self._copy_out: Callable[[Any], Any] | None = None
        self._first_answer: Any = None
        self.opened = Opened(
            framework="jax",
            framework_version=jax.__version__,
            inputs=self._inputs,
            outputs=(),
            device=device.platform,
            provider=f"XLA {device.device_kind}",
            precision=precision,
            threads=_pool_threads() or options.threads,
            options=options.by_name(),
            deepest_level=Level.FRAMEWORK,
            host_memory=PAGEABLE if is_on_gpu else "",
            memory_reason=NO_LOCKS if is_on_gpu and self._locks is None else "",
        )

    def settle(self, outputs: Tensors) -> None:
        """Add the shapes of the first run's outputs and the GPU memory in use to `opened`.

        Raises whatever XLA raises.
        """
        places = tuple(
            TensorPlace(name, (-1, *array.shape[1:]), str(array.dtype))
            for name, array in outputs.items()
        )
        self.filled = {}
        self.forget_arrays()
        if self._host is not None:
            # One program for all outputs. It is compiled here, so that no timed call waits for it.
            # NumPy's way to an array on a GPU takes 0.1 ms more on an H200, 0.7 ms more at 1 MiB.
            self._copy_out = jax.jit(lambda answer: answer, out_shardings=self._host)
            jax.block_until_ready(self._copy_out(self._first_answer))
        self._first_answer = None
        used_bytes = (self._device.memory_stats() or {}).get("bytes_in_use", 0)
        output_memory = ""
        if self._device.platform == "gpu":
            output_memory = PAGEABLE if self._host is None else LOCKED
        self.opened = replace(
            self.opened,
            outputs=places,
            device_memory_bytes=used_bytes,
            output_memory=output_memory,
        )

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        with PREDICTING:
            arrays = self._arrays_of(inputs)
            with self._device_context():
                answer = self._call(self._parameters, *arrays)
            return self._outputs_of(answer)

    def _arrays_of(self, inputs: Tensors) -> list[Any]:
        """Return a batch's arrays in the program's order, page-locked if they can be."""
        for name, (shape, dtype) in self._expected.items():
            array = inputs.get(name)
            if array is None:
                raise PredictFailed(f"input {name} is missing")
            if array.shape != shape or array.dtype != dtype:
                raise PredictFailed(
                    f"input {name} is {array.dtype}{list(array.shape)}, "
                    f"but the model was opened for {dtype}{list(shape)}"
                )
        if self._locks is not None and id(inputs) not in self._bound:
            self._lock(inputs)
        return [inputs[name] for name in self._expected]

    def _outputs_of(self, answer: Any) -> Tensors:
        """Return the arrays of a program's `answer` in the host's memory, by name."""
        if self._names is None:
            paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(answer)[0]]
            own_names = [path_name(path) or "0" for path in paths]
            self._names = names_for(own_names, self._request.model.outputs)
            self._first_answer = answer
        if self._copy_out is not None:
            answer = self._copy_out(answer)
        leaves = [answer] if isinstance(answer, jax.Array) else jax.tree_util.tree_leaves(answer)
        return {
            name: without_bfloat16(np.asarray(leaf))
            for name, leaf in zip(self._names, leaves, strict=True)
        }

    def _lock(self, inputs: Tensors) -> None:
        """Page-lock the arrays of a batch, in place of the oldest's where there are too many."""
        assert self._locks is not None
        if len(self._bound) >= MAX_BOUND:
            self.forget_arrays()
        self._bound[id(inputs)] = inputs
        for name in self._expected:
            self._locks.lock(inputs[name])
        memory, reason = self._locks.host_memory, self._locks.refusal
        self.opened = replace(self.opened, host_memory=memory, memory_reason=reason)

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls, and unlock their pages."""
        self._bound.clear()
        if self._locks is not None:
            self._locks.release()

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture; one without batches captures the first run. Raises PredictFailed.

        The model is compiled once more to get its text, but not for a first run, which compiles
        it anyway.
        """
        if not warmed_with:
            program = program_of("", self.opened.provider)
            return ProfiledCapture(program, self.predict, (), self._request.scratch)
        if self._compiled is None:
            shapes = [
                jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self._expected.values()
            ]
            with self._device_context():
                text = self._call.lower(self._parameters, *shapes).compile().as_text()
            self._compiled = program_of(text, self.opened.provider)
        if self._device.platform == "gpu":
            GRAPHS.instructions = self._compiled.graphable()
        return ProfiledCapture(self._compiled, self.predict, warmed_with, self._request.scratch)

    def close(self) -> None:
        """Free the parameters and the compiled programs."""
        self.forget_arrays()
        GRAPHS.instructions = ()
        self._copy_out = self._first_answer = None
        del self._call, self._parameters
        self.filled = {}
        jax.clear_caches()
        gc.collect()

    def _trace(self) -> str:
        """Trace the model for the batch's shapes and return its precision."""
        try:
            lowered = self._call.lower(self._parameters, *self.filled.values())
        except Exception as error:  # traced functions raise what they like
            port, batch_size = self._request.model.inputs[0], self._request.batch_size
            if batch_size > 1 and port.shape[:1] == (1,):
                raise BatchSizeUnsupported(batch_size, port.layer_name, port.shape) from error
            raise
        precision, callback = computed_in(lowered)
        if callback:
            raise OpenFailed(
                self._request.model.name,
                f"the model calls back into Python ({callback}), which is not supported",
            )
        if self._device.platform != "gpu" or precision != "float32":
            return precision
        return _GPU_PRECISIONS.get(self._options.matmul_precision, precision)


class GpuPredictor(JaxPredictor):
    """An opened JAX model on a GPU."""

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and when the call's parts ran. Raises PredictFailed.

        Each part is waited for before the next one begins, by the host's clock.
        """
        with PREDICTING:
            arrays = self._arrays_of(inputs)
            ends_ns = [now_ns()]
            with self._device_context():
                # On no named device: arrays bound to one would be compiled for anew.
                held = jax.block_until_ready(jax.device_put(arrays))
                ends_ns.append(now_ns())
                answer = jax.block_until_ready(self._call(self._parameters, *held))
                ends_ns.append(now_ns())
            outputs = self._outputs_of(answer)
            ends_ns.append(now_ns())
        return outputs, call_parts(ends_ns)


def _set_up_device(options: Options) -> Any:
    """Set up the process for a device and return it. Raises BadOption, OpenFailed."""
    place, _, number = options.device.partition(":")
    jax.config.update("jax_enable_x64", False)
    # Otherwise XLA reserves three quarters of a GPU's memory, which would hide the model's.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(options.threads)))
    try:
        if place == "cpu":
            jax.config.update("jax_platforms", "cpu")
        device = jax.devices(place)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise BadOption(
            "device", options.device, f"a device that JAX sees: {first_line(error)}"
        ) from error
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    pool_threads = _pool_threads()
    if pool_threads and place == "cpu" and pool_threads != options.threads:
        # XLA makes the pool once in a process; a second model there cannot have another size.
        raise OpenFailed("jax", f"threads: this process already has a pool of {pool_threads}")
    return device


def _pool_threads() -> int:
    """Return the size of XLA's CPU thread pool; 0 where the system does not list threads."""
    try:
        names = [(task / "comm").read_text().strip() for task in _TASKS.iterdir()]
    except OSError:
        return 0
    return names.count(_POOL_THREAD)


def _in_matmul_precision(function: Any, precision: str) -> Any:
    """Return the function, traced with `jax.default_matmul_precision`."""
    if precision == "default":
        return function

    def traced(*leaves: Any) -> Any:
        with jax.default_matmul_precision(precision):
            return function(*leaves)

    return traced
