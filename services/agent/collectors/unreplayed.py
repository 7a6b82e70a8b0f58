"""One call without its CUDA graphs, as spans that are of no query.

A graph's kernels are all launched by one call, so nothing of a replay tells their layers. They are
those of the same kernels, by name and order, in a call that launches them one by one: it is made
once, after a run's first block and outside of its time, and the analyzer aligns the replays with
it (`services.analyzer.correlation.graphs`).
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
"""The span of level model around it all."""


def spans_without_graph(
    unreplayed: Callable[[], tuple[LayerCapture, Tensors]],
    begin: Callable[[], None],
    end: Callable[[], Collected],
) -> Collected:
    """Return the layers, launches and device work of one such call.

    `unreplayed` begins a capture and has a batch to call with; `begin` and `end` are those of the
    device's records. One that fails leaves a note.
    """
    try:
        capture, inputs = unreplayed()
    except (AgentError, RuntimeError) as error:
        return _failed(error)
    calls: list[list[Layer]] = []
    try:
        begin()
        began_ns = now_ns()
        capture.predict(inputs)
        collected = end()
        ended_ns = now_ns()
    except (AgentError, RuntimeError) as error:
        return _failed(error)
    finally:
        calls += capture.close()
    around = CollectedSpan(
        Level.MODEL, NAME, began_ns, ended_ns - began_ns, threading.get_native_id()
    )
    layers = layer_spans(layer for call in calls for layer in call)
    return Collected((around, *layers, *collected.spans), collected.dropped, collected.notes)


def layer_spans(layers: Iterable[Layer]) -> Iterator[CollectedSpan]:
    """Yield layers as a collector's spans."""
    for layer in layers:
        told = json.loads(layer.attributes) if layer.attributes else None
        place = (layer.start_ns, layer.duration_ns, layer.thread)
        yield CollectedSpan(Level.FRAMEWORK, layer.name, *place, attributes=told)


def _failed(error: Exception) -> Collected:
    return Collected(notes=(f"its CUDA graph's layers are not known: {error}",))
