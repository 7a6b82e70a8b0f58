"""Which span lies in which of one thread's, by hand."""

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import CollectedSpan
from services.agent.collectors.nesting import nested, selected


def _span(name: str, start: int, end: int, thread: int = 1) -> CollectedSpan:
    kind = SpanKind.MARKER if start == end else SpanKind.HOST
    return CollectedSpan(Level.APPLICATION, name, start, end - start, thread, kind)


def _parents(*spans: CollectedSpan) -> dict[str, str]:
    found = nested(spans)
    return {each.name: found[each.parent].name if each.parent >= 0 else "" for each in found}


def test_spans_lie_in_the_innermost_around_them_on_their_thread() -> None:
    told = _parents(
        _span("leaf", 2, 3), _span("inner", 1, 5), _span("after", 6, 9), _span("outer", 0, 9),
        _span("mark", 4, 4), _span("other", 2, 3, thread=2),
    )  # fmt: skip
    assert told == {
        "outer": "", "inner": "outer", "leaf": "inner", "mark": "inner", "after": "outer",
        "other": "",
    }  # fmt: skip


def test_of_equal_spans_the_one_that_ended_later_is_outside() -> None:
    assert _parents(_span("in", 1, 5), _span("out", 1, 5)) == {"out": "", "in": "out"}


def test_spans_that_overlap_do_not_lie_in_each_other() -> None:
    told = _parents(_span("a", 0, 5), _span("b", 3, 8), _span("c", 4, 7), _span("at end", 8, 8))
    assert told == {"a": "", "b": "", "c": "b", "at end": "b"}


def test_some_of_the_spans_still_know_their_parents() -> None:
    spans = nested([_span("gone", 0, 9), _span("kept", 1, 8), _span("in it", 2, 3)])
    left = selected(spans, lambda each: each.name != "gone")
    assert [(each.name, each.parent) for each in left] == [("kept", -1), ("in it", 0)]


def test_markers_hold_nothing() -> None:
    assert _parents(_span("one", 4, 4), _span("two", 4, 4)) == {"one": "", "two": ""}
