"""Which launches went into a CUDA graph while a stream was captured: they ran no kernel. Pure."""

import re
from collections.abc import Iterable

_BEGIN = re.compile(r"cu(da)?StreamBeginCapture")
_END = re.compile(r"cu(da)?StreamEndCapture")


def captured(calls: Iterable[tuple[int, int, int, str]]) -> set[int]:
    """Return the correlations of calls made while their thread captured a stream.

    A call is its thread, its start, its correlation and the API function's name. One capture that
    began before the first call or ends after the last one counts as well.
    """
    inside: set[int] = set()
    waiting: dict[int, list[int]] = {}
    begun: set[int] = set()
    for thread, _, correlation, name in sorted(calls):
        since = waiting.setdefault(thread, [])
        if _BEGIN.match(name):
            since.clear()
            begun.add(thread)
        elif _END.match(name):
            inside.update(since)
            since.clear()
            begun.discard(thread)
        else:
            since.append(correlation)
    return inside.union(*(waiting[thread] for thread in begun))
