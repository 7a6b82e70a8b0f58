"""Copies between host and GPU: our predict beside bare PyTorch from page-locked memory.

`python -m benchmarks.host_device [--calls 40] [--rounds 7] [--only NAME …] [--keep]`, on a GPU.

Each case times, round by round in a turning order: bare PyTorch from pageable memory, bare from
page-locked memory into page-locked memory, bare with its input on the device (no copy in), our
predictor's `predict`; then calls two in flight: bare on three streams, and our `begin`. Wanted:
predict within 2 % of bare from page-locked memory, and the rate of two in flight 0.98 of bare's.
The copies that PyTorch's profiler sees in our call must not be pageable.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.timing import keeping
from mlscope.statistics import percentile_interval
from schemas.manifest import Assets, ModelManifest
from services.agent.predictors import OpenRequest, predictor_named
from services.agent.predictors.page_locking import page_aligned

WANTED = 0.02
SLOTS = 3
BUILDERS = ("torchvision.models", "benchmarks")
IMAGES = (3, 224, 224)


@dataclass(frozen=True)
class Case:
    """A model at a batch size, and the options that it is opened with."""

    name: str
    builder: str
    batch_size: int
    options: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = IMAGES
    element_type: str = "float32"
    arguments: dict[str, Any] = field(default_factory=dict)

    def request(self) -> OpenRequest:
        """Return the request of this model with random weights on a GPU."""
        manifest = ModelManifest.model_validate(
            {
                "name": "model",
                "version": "1.0.0",
                "framework": {"name": "pytorch"},
                "inputs": [
                    {
                        "type": "raw",
                        "layer_name": "x",
                        "shape": [-1, *self.shape],
                        "element_type": self.element_type,
                    }
                ],
                "outputs": [{"type": "raw", "layer_name": "y"}],
                "model": Assets(builder=self.builder, weights="random", arguments=self.arguments),
            }
        )
        return OpenRequest(
            manifest, Path(), b"", self.batch_size, "gpu", self.options, builders=BUILDERS
        )


HALF = {"precision": "bfloat16", "channels_last": True}
GRAPHS = {"graphs": True}
RESNET = "torchvision.models.resnet50"
CASES = [
    *(Case(f"resnet50 float32 {n}", RESNET, n) for n in (1, 32, 256)),
    *(Case(f"resnet50 bfloat16 {n}", RESNET, n, HALF) for n in (1, 32, 256)),
    *(Case(f"convnext-tiny {n}", "torchvision.models.convnext_tiny", n) for n in (1, 32)),
    Case(
        "deeplabv3 1",
        "torchvision.models.segmentation.deeplabv3_resnet50",
        1,
        shape=(3, 520, 520),
        arguments={"weights": None, "weights_backbone": None},
    ),
    Case("bert-base 8", "benchmarks.survey.networks.bert_base", 8, {}, (128,), "int64"),
    Case("resnet50 float32 1, graph", RESNET, 1, GRAPHS),
    *(Case(f"resnet50 bfloat16 {n}, graph", RESNET, n, HALF | GRAPHS) for n in (1, 32)),
    Case("convnext-tiny 1, graph", "torchvision.models.convnext_tiny", 1, GRAPHS),
]


class Bare:
    """What PyTorch's documentation would write, on the module of an opened predictor."""

    def __init__(self, predictor: Any, host_arrays: Sequence[Any], options: dict[str, Any]) -> None:
        import torch

        self._torch = torch
        self._module = predictor.module
        self._dtype = getattr(torch, options.get("precision", "float32"))
        self._format = (
            torch.channels_last if options.get("channels_last") else torch.preserve_format
        )
        self.pageable = [torch.from_numpy(array.copy()) for array in host_arrays]
        self.pinned = [tensor.clone().pin_memory() for tensor in self.pageable]
        self.on_device = [self._moved(tensor) for tensor in self.pinned]
        self._outputs: dict[int, dict[int, Any]] = {n: {} for n in range(SLOTS)}
        self._copy_in, self._copy_out = torch.cuda.Stream(), torch.cuda.Stream()

    def from_pageable(self, number: int) -> Any:
        """Predict from pageable memory, into fresh memory."""
        with self._torch.inference_mode():
            answer = self._answer(self.pageable[number])
            return [tensor.float().cpu() for tensor in answer]

    def from_pinned(self, number: int) -> Any:
        """Predict from page-locked memory into page-locked memory."""
        with self._torch.inference_mode():
            outputs = self._fetched(number, self._answer(self.pinned[number]))
        self._torch.cuda.current_stream().synchronize()
        return outputs

    def from_device(self, number: int) -> Any:
        """Predict from an input on the device into page-locked memory."""
        with self._torch.inference_mode():
            outputs = self._fetched(number, self._computed(self.on_device[number]))
        self._torch.cuda.current_stream().synchronize()
        return outputs

    def begin(self, number: int) -> Callable[[], object]:
        """Begin a call on three streams; the function returned waits for it."""
        computing = self._torch.cuda.current_stream()
        with self._torch.inference_mode():
            with self._torch.cuda.stream(self._copy_in):
                tensor = self._moved(self.pinned[number])
                computing.wait_event(self._copy_in.record_event())
            tensor.record_stream(computing)
            tensors = self._apart(self._computed(tensor))
            self._copy_out.wait_event(computing.record_event())
            with self._torch.cuda.stream(self._copy_out):
                self._fetched(number, tensors)
                for output in tensors:
                    output.record_stream(self._copy_out)
                arrived = self._copy_out.record_event()
        return lambda: arrived.synchronize()

    def _answer(self, tensor: Any) -> list[Any]:
        """Return the outputs for a batch in the host's memory."""
        return self._computed(self._moved(tensor))

    def _computed(self, tensor: Any) -> list[Any]:
        """Return the outputs for a batch on the device."""
        return tensors_of(self._module(tensor))

    def _apart(self, outputs: list[Any]) -> list[Any]:
        """Return outputs that the next call leaves as they are."""
        return outputs

    def _moved(self, tensor: Any) -> Any:
        if not tensor.is_floating_point():
            return tensor.to("cuda", non_blocking=True)
        moved = tensor.to("cuda", self._dtype, non_blocking=True)
        return moved.contiguous(memory_format=self._format) if moved.dim() == 4 else moved

    def _fetched(self, number: int, tensors: Sequence[Any]) -> list[Any]:
        outputs = self._outputs[number]
        for place, tensor in enumerate(tensors):
            as_float = tensor.float() if tensor.dtype == self._torch.bfloat16 else tensor
            if place not in outputs:
                outputs[place] = self._torch.empty_like(as_float, device="cpu", pin_memory=True)
            outputs[place].copy_(as_float, non_blocking=True)
        return list(outputs.values())


class BareGraph(Bare):
    """The same calls as replays of one CUDA graph, which has its own input and outputs."""

    def __init__(self, predictor: Any, host_arrays: Sequence[Any], options: dict[str, Any]) -> None:
        super().__init__(predictor, host_arrays, options)
        torch = self._torch
        self._input, aside = self.on_device[0].clone(), torch.cuda.Stream()
        with torch.inference_mode():
            with torch.cuda.stream(aside):
                for _ in range(3):
                    self._module(self._input)
            aside.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._graph_outputs = tensors_of(self._module(self._input))

    def _answer(self, tensor: Any) -> list[Any]:
        return self._computed(tensor)

    def _computed(self, tensor: Any) -> list[Any]:
        self._input.copy_(tensor, non_blocking=True)
        self._graph.replay()
        return self._graph_outputs

    def _apart(self, outputs: list[Any]) -> list[Any]:
        return [output.clone() for output in outputs]


class BareOnHost:
    """The same calls where there is no GPU: a trial of what uses `Bare`."""

    def __init__(self, predictor: Any, host_arrays: Sequence[Any], options: dict[str, Any]) -> None:
        import torch

        self._torch = torch
        self._module = predictor.module
        self._dtype = getattr(torch, options.get("precision", "float32"))
        self.pinned = [torch.from_numpy(array.copy()) for array in host_arrays]

    def from_pinned(self, number: int) -> Any:
        """Predict."""
        tensor = self.pinned[number]
        with self._torch.inference_mode():
            answer = self._module(tensor.to(self._dtype) if tensor.is_floating_point() else tensor)
            return [output.float() for output in tensors_of(answer)]

    def begin(self, number: int) -> Callable[[], object]:
        """Predict; the function returned has nothing to wait for."""
        outputs = self.from_pinned(number)
        return lambda: outputs


BareCalls = Bare | BareOnHost


def bare_on_gpu(predictor: Any, host_arrays: Sequence[Any], options: dict[str, Any]) -> Bare:
    """Return bare calls of a `predictor`'s module on a GPU; `options` are the predictor's."""
    return (BareGraph if options.get("graphs") else Bare)(predictor, host_arrays, options)


def bare_calls(
    predictor: Any, host_arrays: Sequence[Any], options: dict[str, Any], device: str
) -> BareCalls:
    """Return bare calls of a `predictor`'s module on a `device`; `options` are the predictor's."""
    kind = bare_on_gpu if device == "gpu" else BareOnHost
    return kind(predictor, host_arrays, options)


def tensors_of(answer: Any) -> list[Any]:
    """Return the tensors of a model's answer."""
    return list(answer.values()) if isinstance(answer, Mapping) else [answer]


def filled(case: Case) -> list[dict[str, Any]]:
    """Return the input arrays of some batches, as a session makes them."""
    random = np.random.default_rng(1)
    batches = []
    for _ in range(SLOTS):
        array = page_aligned((case.batch_size, *case.shape), case.element_type)
        drawn = random.random(array.shape, np.float32)
        array[...] = drawn if array.dtype.kind == "f" else drawn * 1000
        batches.append({"x": array})
    return batches


def call_ms(call: Callable[[int], object], calls: int) -> float:
    """Return the median time of one call after another [ms]."""
    times = []
    for number in range(calls):
        began = time.perf_counter()
        call(number % SLOTS)
        times.append(time.perf_counter() - began)
    return median(times) * 1e3


def overlapped_ms(begin: Callable[[int], Callable[[], object]], calls: int) -> float:
    """Return the time of a call with two in flight [ms], from the first one's end on."""
    waiting: deque[Callable[[], object]] = deque()
    ends = []
    for number in range(calls):
        waiting.append(begin(number % SLOTS))
        if len(waiting) == 2:
            waiting.popleft()()
            ends.append(time.perf_counter())
    waiting.popleft()()
    ends.append(time.perf_counter())
    return (ends[-1] - ends[0]) / (calls - 1) * 1e3


def ratio_text(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the median of paired ratios with its interval at 95 % (order statistics).

    Fewer than six have none: then it is with their range, and how many they are.
    """
    ratios = np.asarray(ours) / np.asarray(theirs)
    interval = percentile_interval(ratios, 0.5)
    low, high, of_few = interval.low, interval.high, ""
    if low is None or high is None:
        low, high, of_few = min(ratios), max(ratios), f", range of {len(ratios)}"
    return f"{median(ratios):.3f} ({low:.3f} .. {high:.3f}{of_few})"


def copies_of(call: Callable[[], object]) -> str:
    """Return the kinds of copies that PyTorch's profiler sees in a call."""
    import torch

    with torch.profiler.profile() as profile:
        call()
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()
    return ", ".join(sorted({event.name() for event in events if "Memcpy" in event.name()}))


def measure(case: Case, calls: int, rounds: int) -> bool:
    """Print one case; return whether a claim was missed."""
    predictor: Any = predictor_named("pytorch")(case.request())
    batches = filled(case)
    bare = bare_on_gpu(predictor, [batch["x"] for batch in batches], case.options)
    measure_by_name: dict[str, Callable[[int], float]] = {
        "pageable": lambda count: call_ms(bare.from_pageable, count),
        "pinned": lambda count: call_ms(bare.from_pinned, count),
        "on device": lambda count: call_ms(bare.from_device, count),
        "predict": lambda count: call_ms(lambda n: predictor.predict(batches[n]), count),
        "parts": lambda count: call_ms(lambda n: predictor.predict_parts(batches[n]), count),
        "bare, two": lambda count: overlapped_ms(bare.begin, count),
        "begin, two": lambda count: overlapped_ms(
            lambda n: predictor.begin(batches[n]).wait, count
        ),
    }
    for mean_ms in measure_by_name.values():
        mean_ms(6)
    times_ms: dict[str, list[float]] = {name: [] for name in measure_by_name}
    names = list(measure_by_name)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times_ms[name].append(measure_by_name[name](calls))
    shown = "".join(f"{median(values):10.3f}" for values in times_ms.values())
    rate = case.batch_size / median(times_ms["begin, two"]) * 1e3
    print(f"{case.name:22}{shown} {rate:9.0f}", flush=True)
    over = ratio_text(times_ms["predict"], times_ms["pinned"])
    with_parts = ratio_text(times_ms["parts"], times_ms["predict"])
    overlapped = ratio_text(times_ms["bare, two"], times_ms["begin, two"])
    print(
        f"{'':22}predict/pinned {over}; parts/predict {with_parts}; "
        f"rate of two in flight over bare's {overlapped}; {predictor.opened.host_memory}",
        flush=True,
    )
    parts = predictor.predict_parts(batches[0])[1]
    split = ", ".join(f"{part.name} {part.duration_ns / 1e6:.3f}" for part in parts)
    copies = copies_of(lambda: predictor.predict(batches[0]))
    print(f"{'':22}{split} ms; copies: {copies}", flush=True)
    is_missed = (
        median(times_ms["predict"]) > (1 + WANTED) * median(times_ms["pinned"])
        or median(times_ms["begin, two"]) > median(times_ms["bare, two"]) / 0.98
        or "Pageable" in copies
    )
    predictor.close()
    return is_missed


def main() -> int:
    """Run the cases; return how many missed a claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("PyTorch sees no GPU here: nothing was measured")
        return 0
    missed = 0
    with keeping("host_device", is_wanted=options.keep):
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; ms a call")
        columns = "  pageable    pinned on device   predict     parts bare, two begin two"
        print(f"{'model, batch':22}{columns} samples/s")
        for case in CASES:
            if options.only and not any(part in case.name for part in options.only):
                continue
            missed += measure(case, options.calls, options.rounds)
    return missed


if __name__ == "__main__":
    sys.exit(main())
