"""One call without its CUDA graphs, as spans that belong to no query.

A graph's kernels are all launched by one call, so a replay does not show their layers. They have
the layers of the same kernels, by name and order, in a call that launches them one by one. That
call is made once, after a run's first block and outside its time, and the analyzer aligns the
replays with it (`services.analyzer.correlation.graphs`).
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import Collected, CollectedSpan
from services.agent.errors import AgentError
from services.agent.predictors import Layer, LayerCapture, Tensors

NAME = "predict without its CUDA graph"
"""The span of level model around the call."""


def spans_without_graph(
    capture_without_graph: Callable[[], tuple[LayerCapture, Tensors]],
    begin: Callable[[], None],
    end: Callable[[], Collected],
) -> Collected:
    """Return the layers, launches and device work of one such call.

    `capture_without_graph` begins a capture of layers and returns it with a batch of inputs;
    `begin` and `end` record device work. A call that fails leaves a note.
    """
    calls: list[list[Layer]] = []
    try:
        capture, inputs = capture_without_graph()
        try:
            begin()
            began_ns = now_ns()
            capture.predict(inputs)
            collected = end()
            ended_ns = now_ns()
        finally:
            calls += capture.close()
    except (AgentError, RuntimeError) as error:
        return Collected(notes=(f"the layers of its CUDA graph are unknown: {error}",))
    predict = CollectedSpan(
        Level.MODEL, NAME, began_ns, ended_ns - began_ns, threading.get_native_id()
    )
    layers = layer_spans(layer for call in calls for layer in call)
    return Collected((predict, *layers, *collected.spans), collected.dropped, collected.notes)


def layer_spans(layers: Iterable[Layer]) -> Iterator[CollectedSpan]:
    """Yield layers as a collector's spans."""
    for layer in layers:
        yield CollectedSpan(
            Level.FRAMEWORK,
            layer.name,
            layer.start_ns,
            layer.duration_ns,
            layer.thread,
            attributes=json.loads(layer.attributes) if layer.attributes else None,
        )
