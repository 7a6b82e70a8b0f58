"""Parents of spans that one thread began and ended: the innermost around each. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from services.agent.collectors import CollectedSpan


def nested(spans: Sequence[CollectedSpan]) -> list[CollectedSpan]:
    """Return spans by thread and start, each with the place of the one around it; -1 for none.

    Of equal spans the one that comes later is the outer: it was said later, as it ended later.
    """
    order = sorted(
        range(len(spans)), key=lambda at: (*_key(spans[at]), -at if spans[at].duration_ns else at)
    )
    rising = [spans[at] for at in order]
    found, open_places = [], list[int]()
    for place, span in enumerate(rising):
        end_ns = span.start_ns + span.duration_ns
        while open_places and not _holds(rising[open_places[-1]], span, end_ns):
            open_places.pop()
        found.append(replace(span, parent=open_places[-1]) if open_places else span)
        if span.duration_ns:
            open_places.append(place)
    return found


def only(
    spans: Sequence[CollectedSpan], is_kept: Callable[[CollectedSpan], bool]
) -> list[CollectedSpan]:
    """Return some of the spans; their parents are told by their places among those."""
    kept = [place for place, span in enumerate(spans) if is_kept(span)]
    places = {place: new for new, place in enumerate(kept)}
    return [
        span if span.parent < 0 else replace(span, parent=places.get(span.parent, -1))
        for span in (spans[place] for place in kept)
    ]


def _key(span: CollectedSpan) -> tuple[int, int, int]:
    return span.thread, span.start_ns, -span.duration_ns


def _holds(outer: CollectedSpan, span: CollectedSpan, end_ns: int) -> bool:
    return outer.thread == span.thread and end_ns <= outer.start_ns + outer.duration_ns
