"""PyTorch on a GPU: copies in, compute and copies out, one call at a time or overlapped."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import torch

from mlscope.tracing.clock import now_ns
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, CallPart, Tensors
from services.agent.predictors.boundary import PREDICTING
from services.agent.predictors.pytorch.decoding import DevicePictures, nvjpeg_on
from services.agent.predictors.pytorch.opened import PyTorchPredictor
from services.agent.steps.forms import DeviceForm


class GpuPredictor(PyTorchPredictor):
    """An opened PyTorch model on a GPU."""

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and when the call's parts ran. Raises PredictFailed.

        Events on the GPU bound the parts, so compute includes gaps between launches.
        """
        marks = self._marks
        with PREDICTING, torch.inference_mode():
            feed = self.feed_of(inputs)
            marks[0].record()
            tensors = feed.moved()
            marks[1].record()
            outputs = self.outputs_of(self.answer(tensors))
            marks[2].record()
            buffers = feed.begin_fetch(outputs)
            marks[3].record()
            marks[3].synchronize()
            ended_ns = now_ns()
            arrays = {name: buffer.numpy() for name, buffer in buffers.items()}
        parts = []
        for name, first, last in zip((COPY_IN, COMPUTE, COPY_OUT), marks, marks[1:], strict=False):
            start_ns = ended_ns - round(first.elapsed_time(marks[-1]) * 1e6)
            parts.append(CallPart(name, start_ns, round(first.elapsed_time(last) * 1e6)))
        return arrays, parts

    def begin(self, inputs: Tensors) -> "PendingCall":
        """Begin a call whose copies overlap the computing of others. Raises PredictFailed.

        At most two calls with the same arrays may be under way.
        """
        with PREDICTING, torch.inference_mode():
            feed = self.feed_of(inputs)
            computing = torch.cuda.current_stream(self.device)
            copying_in, copying_out = self._copy_streams
            with torch.cuda.stream(copying_in):
                tensors = feed.moved()
                computing.wait_event(copying_in.record_event())
            for tensor in tensors:
                tensor.record_stream(computing)
            outputs = self.outputs_of(self.answer(tensors))
            if self._reuses_outputs:
                # The next call writes into the same memory while these are still copied.
                outputs = {name: tensor.clone() for name, tensor in outputs.items()}
            copying_out.wait_event(computing.record_event())
            with torch.cuda.stream(copying_out):
                buffers = feed.begin_fetch(outputs)
                for tensor in outputs.values():
                    tensor.record_stream(copying_out)
                return PendingCall(buffers, copying_out.record_event())

    @cached_property
    def _reuses_outputs(self) -> bool:
        """Whether a call's outputs lie where those of the call before lay, as a CUDA graph's do."""
        return self.options.graphs or self.options.compile != "none"

    @property
    def decodes_pictures(self) -> bool:
        """Whether the GPU decodes pictures."""
        return self.options.decode == "device"

    def picture_steps(self, forms: Sequence[DeviceForm]) -> DevicePictures:
        """Return the steps of these `forms` on the GPU. Raises PackageMissing."""
        return DevicePictures(forms, self.device, nvjpeg_on(self.device))

    @property
    def holds_inputs(self) -> bool:
        """Whether inputs are on the device before the clock."""
        return self.options.inputs == "device"

    def hold(self, inputs: Tensors) -> None:
        """Copy the arrays to the device, where later calls read them. Raises PredictFailed."""
        with PREDICTING, torch.inference_mode():
            self.feed_of(inputs).hold()

    def release(self, inputs: Tensors) -> None:
        """Let later calls read the arrays again."""
        self.feed_of(inputs).release()

    def is_held_unchanged(self, inputs: Tensors) -> bool:
        """Return whether the model left the copies on the device as they were."""
        with torch.inference_mode():
            return self.feed_of(inputs).is_held_unchanged()

    @cached_property
    def _marks(self) -> Sequence[torch.cuda.Event]:
        return [torch.cuda.Event(enable_timing=True) for _ in range(4)]

    @cached_property
    def _copy_streams(self) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
        return torch.cuda.Stream(self.device), torch.cuda.Stream(self.device)


class PendingCall:
    """A call that was begun."""

    def __init__(self, buffers: Mapping[str, torch.Tensor], arrived: torch.cuda.Event) -> None:
        """Wait for `arrived` before the `buffers` on the host are read."""
        self._buffers, self._arrived = buffers, arrived

    def wait(self) -> Tensors:
        """Return the outputs once they are in the host's memory. Raises PredictFailed."""
        with PREDICTING:
            self._arrived.synchronize()
        return {name: buffer.numpy() for name, buffer in self._buffers.items()}
