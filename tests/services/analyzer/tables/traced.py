"""A small traced load: runs of level model, framework, system and hardware of the same queries."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from schemas.batch import SpanKind
from tests.services.analyzer.tables.reading import span

V100 = {"peak_flops": {"measured": 15.7e12}, "memory_bandwidth": {"measured": 900e9}}
PREDICT_NS = 10_000

Work = tuple[Any, ...]
"""One kernel, copy or set: layer, name, duration in ns, and the rest of `golden.KERNELS` as needed.

The rest is FLOP, bytes read, bytes written, occupancy in percent, then `kind` (a SpanKind; a kernel
without one), launch_ns, launch, span and copy_kind.
"""
_UNCOUNTED = (None, None, None, None)


def copy(layer: int | None, ns: int, direction: str = "HtoD") -> Work:
    """Return a copy of `ns` in a direction of mlscope.tracing.copy_kinds."""
    kind = int(SpanKind.COPY)
    return layer, f"Memcpy {direction}", ns, *_UNCOUNTED, kind, None, None, None, direction


def memset(layer: int | None, ns: int) -> Work:
    """Return a set of memory of `ns`."""
    return layer, "Memset", ns, *_UNCOUNTED, int(SpanKind.SET)


def work_row(work: Work, start_ns: int, query: int = 0) -> list[Any]:
    """Return `work` as a row of a run's `kernels`; `kernel_run` makes these of work in sequence."""
    layer, name, ns, *rest = work
    return [query, layer, name, start_ns, ns, *rest]


def queries(count: int = 3) -> list[list[Any]]:
    """Return answered queries, one after the other."""
    return [
        [n, 0, 1, None, n * 20_000, n * 20_000, n * 20_000 + 15_000, 15_000, 0]
        for n in range(count)
    ]


def predicts(count: int = 3) -> list[list[Any]]:
    """Return a predict a query."""
    return [span(1000 + n, 2, "predict", PREDICT_NS, of=n) for n in range(count)]


def model_run(**more: Any) -> dict[str, Any]:
    """Return a run whose deepest level is model."""
    return {
        "run": "m",
        "level": 2,
        "conditions": V100,
        "queries": queries(),
        "spans": predicts(),
    } | more


def layer_run(*layers: tuple[int, str, int], **more: Any) -> dict[str, Any]:
    """Return a run whose deepest level is framework: index, name and time of each layer."""
    spans = [
        span(100 * n + place, 3, name, ns, of=n, layer=index)
        for n in range(3)
        for place, (index, name, ns) in enumerate(layers)
    ]
    device_attributes = [[index, name, f"T{index}"] for index, name, _ in layers]
    told = {
        "run": "l",
        "level": 3,
        "conditions": V100,
        "queries": queries(),
        "layers": device_attributes,
    }
    return told | {"spans": [*predicts(), *spans]} | more


def kernel_run(*work: Work, count: int = 3, **more: Any) -> dict[str, Any]:
    """Return a run whose deepest level is system: the same work in each of `count` queries.

    Work follows work without a gap, so that no two overlap.
    """
    starts_ns = [0, *accumulate(one[2] for one in work)]
    rows = [
        work_row(one, n * 20_000 + start_ns, n)
        for n in range(count)
        for one, start_ns in zip(work, starts_ns, strict=False)
    ]
    told = {"run": "s", "level": 5, "conditions": V100, "queries": queries(count)}
    return told | {"spans": predicts(count), "kernels": rows} | more


def counter_run(*kernels: Work, **more: Any) -> dict[str, Any]:
    """Return the replay of one query that reads counters: its own times mean nothing."""
    return kernel_run(*kernels, count=1) | {"run": "h", "level": 6, "spans": []} | more


def named(rows: Sequence[dict[str, Any]], column: str = "name") -> dict[Any, dict[str, Any]]:
    """Return rows by a column."""
    return {row[column]: row for row in rows}
