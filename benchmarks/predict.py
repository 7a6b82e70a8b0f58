"""What a predictor adds to its framework: `predict` beside the framework called bare.

`python -m benchmarks.predict [--device cpu|gpu] [--batch-size 1] [--rounds 15] [FRAMEWORK …]`
`python -m benchmarks.predict --attribute [--device gpu]` (PyTorch: where a difference comes from)

Identity and a ResNet-50 (random weights), from an array of the host to arrays of the host. Bare is
what the framework's own documentation would write. Wanted: 10 us or less over bare, both from the
same array: it is on pages of its own, as those of sessions are, and a predictor that locks them for
its copies to a GPU makes bare's copies faster, too. `pageable` is bare from an ordinary array.

Short calls alternate in blocks, long ones one by one in a random order; a case's figure is the
median of the paired differences, with its interval at 95 % (order statistics). It holds where the
interval ends at or below 10 us, and is missed where it begins above that and what two bare calls,
each on a model of its own, differ by; else it cannot be told, which is so wherever a call of tens
of milliseconds varies by more. So ResNet-50's tensors also go through a network that computes next
to nothing: what a predictor does around its framework's call is the same there and can be told.
Frameworks that are not installed are named and left out.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Self

import numpy as np

from benchmarks import bare, resnets, shells
from benchmarks.claims import claim
from mlscope.statistics import percentile_interval
from schemas.manifest import Assets, ModelManifest
from services.agent.errors import AgentError
from services.agent.predictors import OpenRequest, predictor_named
from services.agent.predictors.page_locking import page_aligned

MODELS = Path(__file__).parents[1] / "manifests" / "models"
WANTED_US = 10.0
_LONG = 50
"""Of a long call so many times fewer are made."""
SHAPE, KERAS_SHAPE = (3, 224, 224), (224, 224, 3)
BUILDERS = ("torch.nn", "torchvision.models", "keras.applications", "benchmarks")
FRAMEWORKS = {
    "cpu": ("onnxruntime", "openvino", "pytorch", "jax", "tensorflow", "litert"),
    "gpu": ("pytorch", "jax", "onnxruntime"),
}
IDENTITY, RESNET, SHELL = "identity", "resnet50", "resnet50's tensors"


@dataclass(frozen=True)
class Case:
    """One model on one framework: how we open it, and how its framework would be called."""

    framework: str
    name: str
    request: Callable[[], OpenRequest]
    #: given the request, returns a bare call
    bare: Callable[[OpenRequest], bare.Call]


def manifest(framework: str, shape: tuple[int, ...], **assets: Any) -> ModelManifest:
    """Return a manifest of one input and one output."""
    return ModelManifest.model_validate(
        {
            "name": assets.get("builder", framework).rpartition(".")[2],
            "version": "1.0.0",
            "framework": {"name": framework},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, *shape]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
            "model": Assets(**assets),
        }
    )


def built(
    framework: str, builder: str, shape: tuple[int, ...], device: str, **arguments: Any
) -> OpenRequest:
    """Return a request for a builder's model with random weights."""
    model = manifest(framework, shape, builder=builder, weights="random", arguments=arguments)
    options = {"threads": 1} if device == "cpu" else {}
    return OpenRequest(model, Path(), b"", 1, device, options, builders=BUILDERS)


def filed(
    framework: str,
    suffix: str,
    graph: Callable[[], bytes],
    shape: tuple[int, ...],
    device: str = "cpu",
) -> OpenRequest:
    """Return a request for a model file."""
    model, path = manifest(framework, shape), Path(f"model{suffix}")
    return OpenRequest(model, path, graph(), 1, device, {"threads": 1})


def cases(framework: str, device: str) -> Iterator[Case]:
    """Yield the cases of a framework."""
    requests: Mapping[str, Callable[[], Mapping[str, Callable[[], OpenRequest]]]] = {
        "pytorch": lambda: {
            IDENTITY: partial(built, framework, "torch.nn.Identity", (4,), device),
            RESNET: partial(built, framework, bare.torch_resnet(), SHAPE, device),
            SHELL: partial(built, framework, "benchmarks.shells.torch_shell", SHAPE, device),
        },
        "jax": lambda: {
            IDENTITY: partial(built, framework, "benchmarks.bare.identity", (4,), device),
            RESNET: partial(built, framework, "benchmarks.resnets.jax_network", SHAPE, device),
            SHELL: partial(built, framework, "benchmarks.shells.jax_shell", SHAPE, device),
        },
        "tensorflow": lambda: {
            IDENTITY: partial(built, framework, "benchmarks.bare.keras_identity", (4,), device),
            RESNET: partial(
                built, framework, "keras.applications.ResNet50", KERAS_SHAPE, device, weights=None
            ),
            SHELL: partial(built, framework, "benchmarks.shells.keras_shell", KERAS_SHAPE, device),
        },
        "litert": lambda: {
            IDENTITY: partial(
                filed, framework, ".tflite", partial(resnets.litert_graph, IDENTITY), (4,)
            ),
            RESNET: partial(
                filed, framework, ".tflite", partial(resnets.litert_graph, RESNET), KERAS_SHAPE
            ),
            SHELL: partial(filed, framework, ".tflite", shells.litert_graph, KERAS_SHAPE),
        },
    }
    shipped = (MODELS / IDENTITY / "model.onnx").read_bytes
    of_onnx = {
        IDENTITY: partial(filed, framework, ".onnx", shipped, (4,), device),
        RESNET: partial(filed, framework, ".onnx", resnets.onnx_graph, SHAPE, device),
        SHELL: partial(filed, framework, ".onnx", shells.onnx_graph, SHAPE, device),
    }
    for name, request in requests.get(framework, lambda: of_onnx)().items():
        yield Case(framework, name, request, bare.CALLS[framework])


def in_blocks(calls: list[Callable[[], Any]], count: int, rounds: int) -> list[Any]:
    """Return each call's median times [us] by round, `count` calls of one after the other."""
    times = np.empty((rounds, len(calls)))
    stamps = np.empty(count + 1, np.int64)
    for turn in range(rounds):
        for place in np.roll(np.arange(len(calls)), turn):
            call = calls[place]
            stamps[0] = time.monotonic_ns()
            for index in range(count):
                call()
                stamps[index + 1] = time.monotonic_ns()
            times[turn, place] = np.median(np.diff(stamps)) / 1e3
    return list(times.T)


def one_by_one(calls: list[Callable[[], Any]], count: int) -> list[Any]:
    """Return each call's times [us]: all of them once in a random order, again and again.

    What a machine does meanwhile then meets all of them; each finds another's data in the caches.
    """
    random, times = np.random.default_rng(1), np.empty((count, len(calls)))
    for row in times:
        for place in random.permutation(len(calls)):
            began = time.monotonic_ns()
            calls[place]()
            row[place] = (time.monotonic_ns() - began) / 1e3
    return list(times.T)


def timed(calls: list[Callable[[], Any]], name: str, count: int, rounds: int) -> list[Any]:
    """Warm the calls up and time them: short ones in blocks, long ones one by one."""
    for call in calls * 10:
        call()
    if name != RESNET:
        return in_blocks(calls, count, rounds)
    return one_by_one(calls, count * rounds // _LONG)


@dataclass(frozen=True, slots=True)
class Over:
    """What a predictor adds [us]: the median of paired differences, and its interval at 95 %."""

    median_us: float
    low_us: float
    high_us: float

    @classmethod
    def of(cls, differences_us: Any) -> Self:
        """Return it of paired differences; too few leave an end open."""
        interval = percentile_interval(differences_us, 0.5)
        low = -inf if interval.low is None else interval.low
        return cls(median(differences_us), low, inf if interval.high is None else interval.high)

    def verdict(self, alike: "Over") -> str:
        """Say whether the claim holds, as far as intervals let one.

        `alike` is what two bare calls differ by: an opening of a model has its own place in memory,
        and so its own time, whoever made it. Over by no more than that is not told from it.
        """
        if self.high_us <= WANTED_US:
            return "holds"
        kind_us = max(abs(alike.low_us), abs(alike.high_us))
        return "MISSED" if self.low_us > WANTED_US + kind_us else "cannot be told here"

    def __str__(self) -> str:
        return f"{self.median_us:9.2f} ({self.low_us:.2f} .. {self.high_us:.2f})"


def measure(case: Case, count: int, rounds: int, batch_size: int = 1) -> bool:
    """Print one case; return whether the claim was missed."""
    request = replace(case.request(), batch_size=batch_size)
    predictor = predictor_named(case.framework)(request)
    array = sample(predictor.opened.inputs[0], batch_size)
    # As a session's are: on pages of its own, which the predictor may lock.
    own = page_aligned(array.shape, str(array.dtype))
    own[...] = array
    inputs = {predictor.opened.inputs[0].name: own}
    first, second = case.bare(request), case.bare(request)
    theirs, again, ours, pageable = timed(
        [
            lambda: first(own),
            lambda: second(own),
            lambda: predictor.predict(inputs),
            lambda: first(array),
        ],
        case.name,
        count,
        rounds,
    )
    predictor.close()
    over, alike = Over.of(ours - (theirs + again) / 2), Over.of(again - theirs)
    verdict = over.verdict(alike)
    times = "".join(f"{median(times_us):11.1f}" for times_us in (pageable, theirs, again, ours))
    print(f"{case.framework:12} {case.name:18}{times} {over!s:32} {verdict}", flush=True)
    if verdict != "cannot be told here":
        peer = f"bare {median(theirs):.1f}"
        what = f"over bare {case.framework}, {case.name}"
        claim(what, over.median_us, most=WANTED_US, unit="us", peer=peer)
    if verdict != "holds":
        print(f"{'':12} two bare calls differ by {alike}", flush=True)
    return verdict == "MISSED"


def sample(place: Any, batch_size: int = 1) -> Any:
    """Return random values for one batch."""
    shape = (batch_size, *(max(size, 1) for size in place.shape[1:]))
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def attribute(device: str, count: int, rounds: int) -> None:
    """Print what PyTorch's ResNet-50 costs with each part of our predict call switched off."""
    import torch

    from services.agent.predictors.pytorch.outputs import leaves_of

    (case,) = (candidate for candidate in cases("pytorch", device) if candidate.name == RESNET)
    request = case.request()
    predictor: Any = predictor_named("pytorch")(request)
    array, place = sample(predictor.opened.inputs[0]), "cuda" if device == "gpu" else "cpu"
    inputs, module, host = {"x": array}, predictor.module, torch.from_numpy(array)
    first, second = case.bare(request), case.bare(request)
    own = bare.called(module, place, torch)

    def inside(work: bare.Call) -> Callable[[], Any]:
        def call() -> Any:
            with torch.inference_mode():
                return work(host)

        return call

    calls: dict[str, Callable[[], Any]] = {
        "bare": lambda: first(array),
        "bare, another instance": lambda: second(array),
        "bare, the predictor's module": lambda: own(array),
        "and its input tensor kept": inside(lambda x: module(x.to(place)).cpu().numpy()),
        "and no waiting for the copy in": inside(
            lambda x: module(x.to(place, non_blocking=True)).cpu().numpy()
        ),
        "and outputs by name": inside(
            lambda x: leaves_of(module(x.to(place, non_blocking=True)), ["y"])
        ),
        "the predictor": lambda: predictor.predict(inputs),
    }
    times = dict(zip(calls, timed(list(calls.values()), RESNET, count, rounds), strict=True))
    print(f"PyTorch ResNet-50 on {device}, batch 1: medians, and of differences to bare [us]")
    for name, times_us in times.items():
        print(f"{name:32} {median(times_us):10.1f} {np.median(times_us - times['bare']):+9.2f}")


def by_framework(options: argparse.Namespace) -> int:
    """Measure each framework in a process of its own; return how many claims were missed."""
    missed = 0
    for framework in options.frameworks or FRAMEWORKS[options.device]:
        arguments = ["--calls", str(options.calls), "--rounds", str(options.rounds), "--here"]
        arguments += ["--model", options.model] if options.model else []
        arguments += ["--batch-size", str(options.batch_size)]
        command = [sys.executable, "-m", "benchmarks.predict", framework, *arguments]
        missed += subprocess.run([*command, "--device", options.device]).returncode
    return missed


def main() -> int:
    """Measure; return how many cases missed the claim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("frameworks", nargs="*")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--model", choices=(IDENTITY, RESNET, SHELL), help="that alone")
    parser.add_argument("--attribute", action="store_true", help="PyTorch: part by part")
    parser.add_argument("--here", action="store_true", help="one framework, in this process")
    options = parser.parse_args()
    if options.attribute:
        attribute(options.device, options.calls, options.rounds)
        return 0
    if not options.here:
        load = os.getloadavg()[0]
        print(
            f"batch {options.batch_size} on {options.device}, medians [us]; "
            f"wanted: over <= {WANTED_US:g}; load {load}"
        )
        columns = "".join(f"{own:>11}" for own in ("pageable", "bare", "bare again", "predictor"))
        names = f"{columns} {'over (interval)':>32}"
        print(f"{'':31}{names}", flush=True)
        return by_framework(options)
    missed = 0
    for case in cases(options.frameworks[0], options.device):
        if options.model not in (case.name, None):
            continue
        try:
            missed += measure(case, options.calls, options.rounds, options.batch_size)
        except (AgentError, ImportError) as error:
            print(f"{case.framework:12} {case.name:9} left out: {error}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
