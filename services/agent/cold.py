"""A cold start as a query: opening the model, and its first run, from stamps taken then."""

import threading
from collections.abc import Sequence

from mlscope.load.scenarios import COLD
from mlscope.tracing.batches import ABSENT, ANSWERED
from mlscope.tracing.spans import NO_ATTRIBUTES, NO_PARENT, SpanBuffer
from mlscope.tracing.texts import json_text
from mlscope.tracing.weights import weights_name
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.errors import OpenFailed
from services.agent.measurement import Measurement
from services.agent.pipeline import PREDICT, QUERY
from services.agent.predictors import FirstRun, WeightMove
from services.agent.query import Query

OPEN = "open"
"""The span of loading the model; that of its first run is called as any other's."""


def is_cold(run: Measurement) -> bool:
    """Say whether a run is of the session's own opening."""
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


def _record_weights(spans: SpanBuffer, opening: int, moves: Sequence[WeightMove]) -> None:
    """Record what weights took under the span of the opening, and how many bytes they are."""
    number = spans.reserve(2 * len(moves))
    for place, move in enumerate(moves):
        name = spans.name_id(weights_name(move.action, move.module))
        row = (number + 2 * place, opening, int(Level.APPLICATION), name, move.start_ns)
        spans.append((*row, move.duration_ns, move.thread, 0, 0, NO_ATTRIBUTES))
        note = json_text({"value": move.weight_bytes, "unit": "By"})
        size = (number + 2 * place + 1, opening, int(Level.APPLICATION), name, move.start_ns, 0)
        spans.link((*size, move.thread, 0, 0, note, int(SpanKind.SAMPLE), -1))


def _record_spans(run: Measurement, first: FirstRun) -> None:
    spans, thread = run.recorder.spans, threading.get_native_id()
    root = spans.reserve(3 + len(first.layers))
    rows = [
        (root, NO_PARENT, Level.APPLICATION, QUERY, first.began_ns, first.ended_ns),
        (root + 1, root, Level.MODEL, OPEN, first.began_ns, first.loaded_ns),
        (root + 2, root, Level.MODEL, PREDICT, first.started_ns, first.ended_ns),
    ]
    for span, parent, level, name, start_ns, end_ns in rows:
        if run.level >= level:
            what = (span, parent, int(level), spans.name_id(name), start_ns, end_ns - start_ns)
            spans.append((*what, thread, 0, 0, NO_ATTRIBUTES))
    if run.level >= Level.FRAMEWORK:
        _record_weights(spans, root + 1, first.weights)
        for span, layer in enumerate(first.layers, start=root + 3):
            row = (span, root + 2, int(Level.FRAMEWORK), spans.name_id(layer.name))
            when = (layer.start_ns, layer.duration_ns, layer.thread, 0, 0, layer.attributes)
            spans.append((*row, *when))
