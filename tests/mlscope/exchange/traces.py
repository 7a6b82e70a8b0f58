"""Traces to export: a small one to be read, and any."""

from dataclasses import replace

from hypothesis import strategies as st

from mlscope.exchange.traces import Trace
from schemas.analysis import SpanRow, TracedRun
from schemas.batch import SpanKind
from schemas.level import Level

RUN = TracedRun(
    run="b8-online-system",
    attempt=1,
    agent="gpu-1",
    model="net",
    framework="pytorch",
    device="cuda",
    level=5,
    spans=7,
    epoch_ns=1_790_000_000_000_000_001,
)


def row(span: int, start: int, duration: int, level: Level, **more: object) -> SpanRow:
    """Return a span that is usual but for what is said."""
    usual = SpanRow(
        span=span,
        parent=None,
        layer=None,
        level=int(level),
        name=f"s{span}",
        start_ns=start,
        duration_ns=duration,
        thread=1,
        query=-1,
        block=0,
        kind=int(SpanKind.HOST),
        correlation=-1,
        method="none",
        attributes="",
    )
    return usual._replace(**more)  # type: ignore[arg-type]


SMALL = Trace(
    "e1",
    RUN,
    (
        row(1, 0, 1000, Level.APPLICATION, name="query", query=3),
        row(2, 10, 900, Level.MODEL, name="predict", parent=1, query=3, method="captured"),
        row(3, 20, 100, Level.FRAMEWORK, name="conv;1", parent=2, method="containment"),
        row(4, 30, 95, Level.SYSTEM, name="launch", parent=3, kind=1, correlation=7),
        row(
            5,
            400,
            300,
            Level.SYSTEM,
            name="gemm",
            parent=3,
            kind=2,
            correlation=7,
            thread=13,
            method="launch",
            attributes='{"device": 1, "grid": [2, 1, 1]}',
        ),
        row(
            6, 500, 0, Level.SYSTEM, name="nvml.power", kind=6, attributes='{"value": 1.5}', query=3
        ),
        row(7, 600, 0, Level.MODEL, name="here", kind=5),
    ),
)

ON_TWO_DEVICES = replace(
    SMALL,
    spans=tuple(
        row(number, 10 * number, 15, Level.SYSTEM, kind=2, thread=7, attributes=attributes)
        for number, attributes in enumerate(('{"device": 0}', '{"device": 1}'), 1)
    ),
)
"""Kernels at the same time on streams of the same number."""

_ROWS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 40),
        st.sampled_from([Level.APPLICATION, Level.MODEL, Level.FRAMEWORK, Level.SYSTEM]),
        st.sampled_from(list(SpanKind)),
        st.integers(0, 2),
        st.integers(-1, 3),
        st.sampled_from(["a", "b;c", "é\n", ""]),
        st.integers(-1, 9),
    ),
    max_size=20,
)


def _trace(rows: list[tuple[int, int, Level, SpanKind, int, int, str, int]]) -> Trace:
    spans = [
        row(
            number,
            start,
            duration,
            level,
            kind=int(kind),
            thread=thread,
            query=query,
            name=name,
            correlation=-1 if kind == SpanKind.HOST else query,
            parent=parent if 0 <= parent < number else None,
            method="captured" if 0 <= parent < number else "none",
        )
        for number, (start, duration, level, kind, thread, query, name, parent) in enumerate(rows)
    ]
    return Trace("e1", RUN, sorted(spans, key=lambda each: (each.start_ns, each.span)))


TRACES = _ROWS.map(_trace)
