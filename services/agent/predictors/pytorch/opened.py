"""An opened PyTorch model, and its predict calls.

On a GPU a predict call ends when its outputs are in the host's memory.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from schemas.level import Level
from services.agent.predictors import (
    MAX_BOUND,
    LayerCapture,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
)
from services.agent.predictors.boundary import PREDICTING
from services.agent.predictors.page_locking import LOCKED
from services.agent.predictors.pytorch.feed import Feed
from services.agent.predictors.pytorch.host_memory import cuda_page_locks
from services.agent.predictors.pytorch.models import caller_of, precision_of
from services.agent.predictors.pytorch.normalizing import normalizing, notes_of
from services.agent.predictors.pytorch.options import Options
from services.agent.predictors.pytorch.outputs import leaves_of, single_output_name
from services.agent.predictors.pytorch.tracing.capturing import LayerCaptures, ModelCalls
from services.agent.predictors.pytorch.tracing.events import MODEL_CALL


class PyTorchPredictor:
    """An opened PyTorch model."""

    def __init__(self, request: OpenRequest, options: Options, module: Any) -> None:
        """Take the `module` that was loaded for a `request` and prepared by the `options`."""
        self._request = request
        self.options = options
        self.module = module
        self.device = torch.device(options.device)
        self._names = [port.layer_name for port in request.model.outputs]
        self._single_name = single_output_name(self._names)
        call = caller_of(module, request.model.inputs, options)
        self._call = normalizing(call, request.normalizations, options)
        self._feeds: dict[int, Feed] = {}
        self._graph: _CapturedGraph | None = None
        self._captures: LayerCaptures | None = None
        is_on_gpu, (name, provider) = self.device.type == "cuda", names_of(self.device)
        self._locks = cuda_page_locks() if is_on_gpu else None
        self.opened = Opened(
            framework="pytorch",
            framework_version=torch.__version__,
            inputs=tuple(
                TensorPlace(port.layer_name, port.shape, port.element_type)
                for port in request.model.inputs
            ),
            outputs=(),
            device=name,
            provider=provider,
            precision=precision_of(module, options),
            threads=torch.get_num_threads(),
            options=options.by_name(),
            deepest_level=Level.FRAMEWORK,
            # Its output buffers are page-locked whatever becomes of the inputs.
            output_memory=LOCKED if is_on_gpu else "",
            notes=notes_of(
                [port.layer_name for port in request.model.inputs], request.normalizations, options
            ),
        )

    def settle(self, outputs: Tensors) -> None:
        """Add the outputs' shapes and the GPU memory to `opened`; capture a graph if asked to."""
        places = tuple(
            TensorPlace(name, (-1, *array.shape[1:]), str(array.dtype))
            for name, array in outputs.items()
        )
        if self.options.graphs:
            (feed,) = self._feeds.values()
            self._graph = _CapturedGraph(self._call, feed.moved())
        self.forget_arrays()
        used_bytes = torch.cuda.memory_reserved(self.device) if self.device.type == "cuda" else 0
        self.opened = replace(self.opened, outputs=places, device_memory_bytes=used_bytes)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        return self._predict(inputs, self._graph)

    def predict_directly(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch, replaying no captured graph. Raises PredictFailed."""
        return self._predict(inputs, None)

    def predict_marked(self, inputs: Tensors) -> Tensors:
        """Predict directly, with the model's own call in a region of the profiler.

        Raises PredictFailed.
        """

        def marked_call(tensors: list[torch.Tensor]) -> Any:
            with torch.profiler.record_function(MODEL_CALL):
                return self._call(tensors)

        return self._predict(inputs, None, marked_call)

    def _predict(
        self,
        inputs: Tensors,
        graph: "_CapturedGraph | None",
        call: Callable[[list[torch.Tensor]], Any] | None = None,
    ) -> Tensors:
        with PREDICTING, torch.inference_mode():
            feed = self.feed_of(inputs)
            model_call = call or self._call
            answer = graph.replay(feed.sources) if graph else model_call(feed.moved())
            return feed.fetched(self.outputs_of(answer))

    def answer(self, tensors: list[torch.Tensor]) -> Any:
        """Return what the model returns for input tensors; a captured graph copies them."""
        return self._graph.replay(tensors) if self._graph else self._call(tensors)

    def outputs_of(self, answer: Any) -> dict[str, torch.Tensor]:
        """Return the tensors of a model's answer by name, where they are."""
        if type(answer) is torch.Tensor:
            return {self._single_name: answer}
        return leaves_of(answer, self._names)

    def feed_of(self, inputs: Tensors) -> Feed:
        """Return the feed of these arrays; a new one replaces the oldest of too many."""
        feed = self._feeds.get(id(inputs))
        if feed is not None:
            return feed
        if len(self._feeds) >= MAX_BOUND:
            self._feeds.pop(next(iter(self._feeds)))
        feed = self._feeds[id(inputs)] = Feed(inputs, self.options, self._locks)
        if self._locks is not None:
            memory, reason = self._locks.host_memory, self._locks.refusal
            self.opened = replace(self.opened, host_memory=memory, memory_reason=reason)
        return feed

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls, and unlock their pages."""
        self._feeds.clear()
        if self._locks is not None:
            # Calls that nobody waited for may still be copying.
            torch.cuda.synchronize(self.device)
            self._locks.release()

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture of layers. Raises PredictFailed."""
        if self._captures is None:
            calls = ModelCalls(
                self.predict,
                self.predict_directly,
                self.predict_marked,
                lambda inputs: self._call(Feed(inputs, self.options).moved()),
                lambda twin: type(self)(self._request, self.options, twin).predict_marked,
            )
            self._captures = LayerCaptures(self.module, self.options, calls)
        return self._captures.begin(warmed_with)

    def close(self) -> None:
        """Free the model, and the GPU memory that PyTorch reserved for it."""
        self.forget_arrays()
        if self._captures is not None:
            self._captures.close()
        self._graph = self._captures = None
        del self.module, self._call
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def names_of(device: torch.device) -> tuple[str, str]:
    """Return what requests call a `device`, as gpu, rocm or xpu, and what computes there."""
    if device.type == "cuda":
        name = "rocm" if torch.version.hip else "gpu"
        return name, str(torch.cuda.get_device_name(device))
    if device.type == "cpu":
        return "cpu", f"cpu ({torch.backends.cpu.get_cpu_capability()})"
    provider = torch.xpu.get_device_name(device) if device.type == "xpu" else device.type
    return device.type, str(provider)


class _CapturedGraph:
    """A CUDA graph of one call and the tensors it reads and writes."""

    def __init__(
        self, call: Callable[[list[torch.Tensor]], Any], tensors: Sequence[torch.Tensor]
    ) -> None:
        self._inputs = [tensor.clone() for tensor in tensors]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode(), torch.cuda.stream(stream):
            for _ in range(3):
                call(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self._graph):
            self._outputs = call(self._inputs)

    def replay(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Copy the inputs in from the host, replay, and return the outputs."""
        for graph_input, tensor in zip(self._inputs, tensors, strict=True):
            graph_input.copy_(tensor, non_blocking=True)
        self._graph.replay()
        return self._outputs
