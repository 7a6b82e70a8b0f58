"""Parents of spans that one thread began and ended: the innermost span around each. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlscope.tracing.collected import CollectedSpan


def nested(spans: Sequence[CollectedSpan]) -> list[CollectedSpan]:
    """Return spans by thread and start, each with the place of its parent, -1 for none.

    Of spans with equal times the later one is the outer: spans are recorded when they end.
    """

    def order(place: int) -> tuple[int, int, int, int]:
        span = spans[place]
        later_first = -place if span.duration_ns else place
        return span.thread, span.start_ns, -span.duration_ns, later_first

    ordered = [spans[place] for place in sorted(range(len(spans)), key=order)]
    with_parents, open_places = [], list[int]()
    for place, span in enumerate(ordered):
        end_ns = span.start_ns + span.duration_ns
        while open_places:
            outer = ordered[open_places[-1]]
            if outer.thread == span.thread and end_ns <= outer.start_ns + outer.duration_ns:
                break
            open_places.pop()
        with_parents.append(replace(span, parent=open_places[-1]) if open_places else span)
        if span.duration_ns:
            open_places.append(place)
    return with_parents


def selected(
    spans: Sequence[CollectedSpan], is_selected: Callable[[CollectedSpan], bool]
) -> list[CollectedSpan]:
    """Return some of the spans, with their parents' places among these; -1 where left out."""
    old_places = [place for place, span in enumerate(spans) if is_selected(span)]
    new_places = {old: new for new, old in enumerate(old_places)}
    return [
        span if span.parent < 0 else replace(span, parent=new_places.get(span.parent, -1))
        for span in (spans[place] for place in old_places)
    ]
