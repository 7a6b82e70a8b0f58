"""A model whose truth is known: layers that wait busily for as long as they were told.

Brought in by an entry point, as anybody's own predictor is (`busy-1.0.dist-info`). The option
`layers_us` has each layer's time in microseconds. `HOOKS` are called inside each layer, before and
after its work. The collector `layer_usage` lives here as well, a dear profiler: at each layer's
begin and end it asks what the thread used, its callbacks inside the layers, as those of CUPTI or
PAPI lie in the calls that they look at.
"""

import json
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.predictors import Layer, Opened, OpenRequest, Predictor, TensorPlace, Tensors

READINGS = 6
"""Questions a callback asks: as many as a profiler that reads several groups of counters."""

Hook = Callable[[int, bool], None]
"""Takes a layer's index, and whether it begins."""


@dataclass(slots=True)
class Hooks:
    """What is called inside each layer; None is nobody."""

    hook: Hook | None = None
    #: begin and end (CLOCK_MONOTONIC ns) of each call in which the system gave the core away
    lost: list[tuple[int, int]] = field(default_factory=list)


HOOKS = Hooks()
"""The process's own: a collector finds no other way into a model."""


def open_model(request: OpenRequest) -> Predictor:
    """Open the layers that the options describe."""
    return Busy(request)


@dataclass(slots=True)
class BusyLayer:
    """Waits for `busy_ns` of its own time, and calls the hook."""

    index: int
    busy_ns: int
    attributes: bytes = field(default=b"")

    def __call__(self) -> None:
        """Do the work."""
        hook = HOOKS.hook
        if hook is not None:
            hook(self.index, True)
        until_ns = now_ns() + self.busy_ns
        while now_ns() < until_ns:
            pass
        if hook is not None:
            hook(self.index, False)


@contextmanager
def watched() -> Iterator[None]:
    """Note a call in which this thread lost its core: its layers took longer than they were told.

    About a microsecond, between two calls of the model's layers and never in one.
    """
    began, before = now_ns(), resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    yield
    if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw != before:
        HOOKS.lost.append((began, now_ns()))


class Busy:
    """Runs its layers one after the other and answers with its input."""

    def __init__(self, request: OpenRequest) -> None:
        port = request.model.inputs[0]
        place = TensorPlace(port.layer_name, (request.batch_size, *port.shape[1:]), "float32")
        self._layers = [
            BusyLayer(
                index, round(us * 1000), json.dumps({"index": index, "type": "Busy"}).encode()
            )
            for index, us in enumerate(request.options["layers_us"])
        ]
        self.opened = Opened(
            framework="busy",
            framework_version="1.0",
            inputs=(place,),
            outputs=(place,),
            device="cpu",
            provider="",
            precision="float32",
            threads=1,
            options=dict(request.options),
            deepest_level=Level.FRAMEWORK,
        )

    def predict(self, inputs: Tensors) -> Tensors:
        """Run the layers."""
        with watched():
            for layer in self._layers:
                layer()
        return inputs

    def layers(self, warmed_with: Sequence[Tensors]) -> "BusyCapture":
        """Begin a capture of the layers."""
        capture = BusyCapture(self._layers)
        for inputs in warmed_with:
            self.predict(inputs)
        return capture

    def close(self) -> None:
        """Hold nothing."""


class BusyCapture:
    """Stamps around each layer."""

    notes: Sequence[str] = ()

    def __init__(self, layers: Sequence[BusyLayer]) -> None:
        self._layers = layers
        self._calls: list[list[tuple[int, int]]] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Run the layers, each between two stamps."""
        stamps: list[tuple[int, int]] = []
        append = stamps.append
        with watched():
            for layer in self._layers:
                began = now_ns()
                layer()
                append((began, now_ns()))
        self._calls.append(stamps)
        return inputs

    def close(self) -> list[list[Layer]]:
        """Return the layers of each call."""
        thread = threading.get_native_id()
        return [
            [
                Layer(f"busy{layer.index}", began, ended - began, thread, layer.attributes)
                for layer, (began, ended) in zip(self._layers, stamps, strict=True)
            ]
            for stamps in self._calls
        ]


def availability() -> Availability:
    """Say that it looks into this model alone."""
    return Availability((Level.SYSTEM,), frameworks=("busy",))


def open_collector(_: CollectorRequest) -> "LayerUsage":
    """Open it."""
    return LayerUsage()


class LayerUsage:
    """A span a layer, with the CPU time and faults in it."""

    name = "layer_usage"
    level = Level.SYSTEM

    def __init__(self) -> None:
        self._spans: list[CollectedSpan] = []
        self._began: tuple[int, resource.struct_rusage] | None = None

    def begin(self) -> None:
        """Be called from now on."""
        self._spans = []
        HOOKS.hook = self._called

    def end(self) -> Collected:
        """Return what was asked."""
        HOOKS.hook = None
        return Collected(self._spans)

    def close(self) -> None:
        """Be called no more."""
        HOOKS.hook = None

    def _called(self, index: int, begins: bool) -> None:
        for _ in range(READINGS):
            used = resource.getrusage(resource.RUSAGE_THREAD)
        if begins:
            self._began = now_ns(), used
        elif self._began is not None:
            at_ns, before = self._began
            usage = {"cpu_s": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime}
            span = CollectedSpan(
                Level.SYSTEM, f"usage{index}", at_ns, now_ns() - at_ns, attributes=usage
            )
            self._spans.append(span)
