"""A cold start as a query: opening the model, and its first run, from stamps taken then."""

import threading

from mlscope.load.scenarios import COLD
from mlscope.tracing.batches import ABSENT, ANSWERED
from mlscope.tracing.spans import NO_ATTRIBUTES, NO_PARENT
from mlscope.tracing.texts import json_text
from mlscope.tracing.weights import weights_name
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.errors import OpenFailed
from services.agent.predictors import FirstRun
from services.agent.worker.measurement import Measurement
from services.agent.worker.queries.pipeline import PREDICT, QUERY
from services.agent.worker.queries.query import Query

OPEN = "open"
"""The name of the span of loading the model; its first run has the name of any other run."""


def is_cold(run: Measurement) -> bool:
    """Return whether a run measures the session's own opening."""
    return run.plan.scenario == COLD


def record_opening(run: Measurement) -> None:
    """Record how the session was opened as the run's one query. Raises OpenFailed."""
    first = run.session.predictor.opened.first
    if first is None:
        raise OpenFailed(run.session.subject.model.name, "its first run was not timed")
    query = Query(0, [0], first.began_ns)
    query.started_ns, query.ended_ns = first.began_ns, first.ended_ns
    size = run.session.supply.batch_size
    stamps = (ABSENT, first.began_ns, first.began_ns, first.ended_ns, query.service_ns)
    run.recorder.query((0, 0, size, *stamps, ANSWERED, ""))
    run.new_block()(query)
    _record_spans(run, first)
    run.end_block(0)


def _record_spans(run: Measurement, first: FirstRun) -> None:
    spans, thread = run.recorder.spans, threading.get_native_id()
    root = spans.reserve(3 + len(first.layers))
    opening, predict = root + 1, root + 2
    for span, parent, level, name, start_ns, end_ns in (
        (root, NO_PARENT, Level.APPLICATION, QUERY, first.began_ns, first.ended_ns),
        (opening, root, Level.MODEL, OPEN, first.began_ns, first.loaded_ns),
        (predict, root, Level.MODEL, PREDICT, first.started_ns, first.ended_ns),
    ):
        if run.level >= level:
            timing = (start_ns, end_ns - start_ns, thread, 0, 0, NO_ATTRIBUTES)
            spans.append((span, parent, int(level), spans.name_id(name), *timing))
    if run.level < Level.FRAMEWORK:
        return
    # Each move of weights has two spans below that of the opening: its time, and its bytes.
    first_id = spans.reserve(2 * len(first.weights))
    for index, move in enumerate(first.weights):
        name_id = spans.name_id(weights_name(move.action, move.module))
        row = (first_id + 2 * index, opening, int(Level.APPLICATION), name_id, move.start_ns)
        spans.append((*row, move.duration_ns, move.thread, 0, 0, NO_ATTRIBUTES))
        size = json_text({"value": move.weight_bytes, "unit": "By"})
        row = (first_id + 2 * index + 1, opening, int(Level.APPLICATION), name_id, move.start_ns)
        spans.link((*row, 0, move.thread, 0, 0, size, int(SpanKind.SAMPLE), -1))
    for span, layer in enumerate(first.layers, start=predict + 1):
        timing = (layer.start_ns, layer.duration_ns, layer.thread, 0, 0, layer.attributes)
        spans.append((span, predict, int(Level.FRAMEWORK), spans.name_id(layer.name), *timing))
