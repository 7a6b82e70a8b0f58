"""The slow, obvious way to a tree: every span against every other."""

from dataclasses import dataclass

from schemas.batch import SpanKind

HOSTS = (SpanKind.HOST, SpanKind.LAUNCH, SpanKind.MARKER)
DEVICES = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)


@dataclass(frozen=True)
class Span:
    """One span; `parent` as captured, -1 for what is not known."""

    span: int
    level: int
    start: int
    end: int
    thread: int = 0
    query: int = -1
    kind: int = SpanKind.HOST
    correlation: int = -1
    parent: int = -1


Attribution = tuple[int | None, int | None, str]
"""Parent, layer, method."""


def tree_of(spans: list[Span], tolerance_ns: int) -> dict[int, Attribution]:
    """Return each span's place."""
    by_id = {each.span: each for each in spans}
    parents = {each.span: _parent(each, spans, tolerance_ns) for each in spans}
    for each in spans:
        if each.kind in DEVICES and each.parent < 0:
            parents[each.span] = _launched(each, spans, parents)
    return {
        each: (parent, _layer(each, by_id, parents), method)
        for each, (parent, method) in parents.items()
    }


def _parent(child: Span, spans: list[Span], tolerance_ns: int) -> tuple[int | None, str]:
    if child.parent >= 0:
        return child.parent, "captured"
    if child.kind not in HOSTS or child.level < 1:
        return None, "none"
    if child.level == 1:
        return _said(child, spans, tolerance_ns)
    above = [
        each
        for each in spans
        if each.kind in (SpanKind.HOST, SpanKind.LAUNCH) and each.level < child.level
    ]
    own = [
        each for each in above if each.thread == child.thread and child.query in (-1, each.query)
    ]
    query = child.query if child.query >= 0 else _under_way(child, spans)
    others = [each for each in above if query >= 0 and each.query == query]
    for candidates in (own, others):
        for level in sorted({each.level for each in candidates}, reverse=True):
            of_level = [each for each in candidates if each.level == level]
            found = _innermost(of_level, child.start, child.end)
            if found is None:
                middle = child.start + (child.end - child.start) // 2
                start = min(child.start + tolerance_ns, middle)
                found = _innermost(of_level, start, max(child.end - tolerance_ns, middle))
            if found is not None:
                return found, "containment"
    return None, "none"


def _said(child: Span, spans: list[Span], tolerance_ns: int) -> tuple[int | None, str]:
    """Return the root of the query that a user's own span lies in."""
    known = [each for each in spans if each.query >= 0 and each.kind == SpanKind.HOST]
    roots = [each for each in known if each.level <= 1]
    under_way = _under_way(child, spans)
    if child.query >= 0:
        return None, "none"
    for candidates in (
        [each for each in known if each.level == 2 and each.thread == child.thread],
        [each for each in roots if each.thread == child.thread],
        [each for each in roots if each.query == under_way],
    ):
        found = _innermost(candidates, child.start, child.end)
        if found is None:
            middle = child.start + (child.end - child.start) // 2
            start = min(child.start + tolerance_ns, middle)
            found = _innermost(candidates, start, max(child.end - tolerance_ns, middle))
        query = next((each.query for each in spans if each.span == found), -1)
        root = next((each.span for each in roots if each.query == query), None)
        if found is not None and root is not None:
            return root, "containment"
    return None, "none"


def _innermost(candidates: list[Span], start: int, end: int) -> int | None:
    around = [
        (each.start, -each.end, place)
        for place, each in enumerate(candidates)
        if each.start <= start and end <= each.end
    ]
    return candidates[max(around)[2]].span if around else None


def _under_way(child: Span, spans: list[Span]) -> int:
    middle = (child.start + child.end) // 2
    roots = [
        each.query
        for each in spans
        if each.level <= 1
        and each.query >= 0
        and each.kind == SpanKind.HOST
        and each.start <= middle <= each.end
    ]
    return roots[0] if len(roots) == 1 else -1


def _launched(
    device: Span, spans: list[Span], parents: dict[int, tuple[int | None, str]]
) -> tuple[int | None, str]:
    launch = _launch_of(device, spans)
    if launch is None:
        return None, "none"
    together = [
        each for each in spans if each.kind in DEVICES and _launch_of(each, spans) == launch
    ]
    parent = parents[launch.span][0]
    method = "graph" if len(together) > 1 else "launch"
    is_known = parent in {each.span for each in spans}
    return (parent if is_known else launch.span), method


def _launch_of(device: Span, spans: list[Span]) -> Span | None:
    same = [
        each
        for each in spans
        if each.kind == SpanKind.LAUNCH and each.correlation == device.correlation >= 0
    ]
    same.sort(key=lambda each: each.start)
    begun = [each for each in same if each.start <= device.start]
    return begun[-1] if begun else next(iter(same), None)


def _layer(
    span: int, by_id: dict[int, Span], parents: dict[int, tuple[int | None, str]]
) -> int | None:
    at: int | None = span
    for _ in range(len(by_id) + 1):
        if at is None or at not in by_id:
            return None
        if by_id[at].level == 3:
            return at
        at = parents[at][0]
    return None
