"""`mlscope export`: what is said of the spans that it wrote."""

from dataclasses import replace

from cli.commands.tracing import _cut, _said
from mlscope.exchange.traces import Trace
from tests.mlscope.exchange.traces import SMALL


def _of(spans: int, whole: int) -> Trace:
    run = SMALL.run.model_copy(update={"spans": whole})
    return replace(SMALL, run=run, spans=SMALL.spans[:spans])


def test_one_span_is_one() -> None:
    one, two = _of(1, 2), _of(2, 3)
    assert _said(one) == f"1 span of {one.run.run}"
    assert _said(two) == f"2 spans of {two.run.run}"
    assert _cut(one).startswith("the first of 2 spans was written; ")
    assert _cut(two).startswith("the first 2 of 3 spans were written; ")
