"""Runs of a model that processes feed, and of the same model with samples prepared ahead."""

from collections.abc import Iterator
from typing import Any

from tests.services.analyzer.tables.reading import MS

IN_FLIGHT, QUERIES = 16, 120
BATCHES = 8
"""Batches that are prepared before the clock."""


def pooled(
    prepare_ms: float,
    predict_ms: float,
    *,
    processes: int,
    due_ms: int | None = None,
    jitter_ms: float = 0.0,
    **more: Any,
) -> dict[str, Any]:
    """Return a run of single samples that `processes` prepare and the model predicts one by one.

    A closed loop of 16 queries, or one due each `due_ms`. Calls take `predict_ms` and up to
    `jitter_ms` more or less.
    """
    free = [0] * processes
    predicted = 0
    queries: list[list[Any]] = []
    spans: list[list[Any]] = []
    for query, call_ns in enumerate(calls_ns(predict_ms, jitter_ms)):
        due = None if due_ms is None else query * due_ms * MS
        issued = due or (queries[-IN_FLIGHT][6] if query >= IN_FLIGHT else 0)
        process = free.index(min(free))
        begun = max(issued, free[process])
        free[process] = begun + int(prepare_ms * MS)
        half = (free[process] - begun) // 2
        predicted = max(free[process], predicted) + call_ns
        steps = (
            ("decode", begun, half, process),
            ("resize", begun + half, half, process),
            ("predict", predicted - call_ns, call_ns, -1),
            ("topk", predicted, MS // 10, -1),
        )
        spans += [
            [4 * query + number, None, 2, name, start, spent, thread, query, 0, None]
            for number, (name, start, spent, thread) in enumerate(steps)
        ]
        ended = predicted + MS // 10
        queries.append([query, 0, 1, due, issued, begun, ended, ended - begun, 0])
    run = {"run": "r", "level": 2, "scenario": "batched", "queries": queries, "spans": spans}
    return run | {"conditions": {"prepare_processes": processes, "samples": "streamed"}} | more


def ahead(
    predict_ms: float, *, prepare_ms: float = 5.0, jitter_ms: float = 0.0, **conditions: Any
) -> dict[str, Any]:
    """Return a run of the same model, whose samples were prepared before the clock.

    Each of 8 batches took one thread `prepare_ms` for that; calls as in `pooled`.
    """
    ended = 0
    queries: list[list[Any]] = []
    spans: list[list[Any]] = [
        [n, None, 1, "prepare", -20 * MS * (n + 1), int(prepare_ms * MS), 0, -1, -1, None]
        for n in range(BATCHES)
    ]
    for query, call_ns in enumerate(calls_ns(predict_ms, jitter_ms)):
        begun, ended = ended, ended + call_ns
        number = BATCHES + query
        spans.append([number, None, 2, "predict", begun, call_ns, 0, query, 0, None])
        queries.append([query, 0, 1, None, begun, begun, ended, call_ns, 0])
    run = {"run": "a", "level": 2, "scenario": "batched", "queries": queries, "spans": spans}
    return run | {"conditions": {"samples": "ahead", **conditions}}


def calls_ns(predict_ms: float, jitter_ms: float) -> Iterator[int]:
    """Yield how long each call takes: `predict_ms`, up to `jitter_ms` more or less."""
    for query in range(QUERIES):
        yield int((predict_ms + jitter_ms * (query * 7 % 11 - 5) / 5) * MS)
