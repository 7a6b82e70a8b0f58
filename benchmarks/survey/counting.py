"""Counters of whole models where time is short: each kind of operator call counted once.

`python -m benchmarks.survey.counting ORDER.json` is run by ncu (`counts.command_of`). Counting
takes 0.1 s a kernel, and models repeat themselves: of the operator calls of one call of a model
that are alike (same operator, shapes, strides, types and settings) the profiler is on for the
first alone, in an NVTX range; how often each kind came is written beside. Alike calls do the same
operations and run the same kernels; what they find in caches may differ.
"""

import ctypes
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from benchmarks.survey.measuring import ALLOWED
from benchmarks.survey.subjects import Net, net_named
from services.agent.predictors import OpenRequest
from services.agent.predictors.pytorch.opened import PyTorchPredictor
from services.agent.predictors.pytorch.predictor import open_model


class Profiler:
    """The switch of what counts: cuProfilerStart and cuProfilerStop, around an NVTX range."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._nvtx: Any = torch.cuda.nvtx

    def begin(self, name: str) -> None:
        """Count from here on, once what is under way is through."""
        torch.cuda.synchronize()
        self._nvtx.range_push(name)
        self._cuda.cuProfilerStart()

    def end(self) -> None:
        """Count no more."""
        torch.cuda.synchronize()
        self._cuda.cuProfilerStop()
        self._nvtx.range_pop()


class FirstOfAKind(TorchDispatchMode):
    """Lets a profiler see the first operator call of each kind, and counts all."""

    def __init__(self, profiler: Any, prefix: str) -> None:
        super().__init__()
        self._profiler, self._prefix = profiler, prefix
        self._numbers: dict[str, int] = {}
        #: calls of each kind, by the name of its range
        self.times = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, watched if it is the first of its kind."""
        kind = kind_of(func, args, kwargs or {})
        is_first = kind not in self._numbers
        name = f"{self._prefix}|{self._numbers.setdefault(kind, len(self._numbers))}"
        self.times[name] += 1
        if not is_first:
            return func(*args, **(kwargs or {}))
        self._profiler.begin(name)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self._profiler.end()


def kind_of(func: Any, args: Any, kwargs: Any) -> str:
    """Return what operator calls have in common that do the same work on other values."""

    def describe(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return f"{value.dtype}{tuple(value.shape)}{tuple(value.stride())}{value.device}"
        return value

    return f"{func}{tree_map(describe, (args, kwargs))}"


def opened(net: Net, batch_size: int, device: str) -> PyTorchPredictor:
    """Open a model of the survey, as an agent does."""
    manifest = net.manifest()
    options = {**manifest.options, **net.options}
    request = OpenRequest(
        manifest, Path(), b"", batch_size, device, options=options, builders=ALLOWED.builders
    )
    return open_model(request)


def count(net: Net, batch_size: int, profiler: Any, device: str = "gpu") -> Counter[str]:
    """Count one call of a model, its second; return how often each kind of operator came."""
    predictor = opened(net, batch_size, device)
    shape = (batch_size, *net.shape)
    tensor = torch.randint(0, net.high, shape) if net.high else torch.rand(shape)
    tensor = tensor.to("cuda" if device == "gpu" else device)
    values = list(tensor) if net.options.get("call") == "list" else tensor
    mode = FirstOfAKind(profiler, net.name)
    with torch.inference_mode():
        predictor.module(values)
        with mode:
            predictor.module(values)
    predictor.close()
    return mode.times


def main() -> int:
    """Count the models of an order until its time is up; a line of answers for each."""
    order = json.loads(Path(sys.argv[1]).read_text())
    until = time.monotonic() + order["seconds"]
    profiler = Profiler()
    with Path(order["answers"]).open("a") as answers:
        for name, batch_size in order["models"]:
            if time.monotonic() > until:
                break
            began = time.monotonic()
            times = count(net_named(name), batch_size, profiler)
            torch.cuda.empty_cache()
            report = {"model": name, "batch": batch_size, "times": times}
            answers.write(json.dumps(report) + "\n")
            answers.flush()
            print(f"counted {name} {batch_size} {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
