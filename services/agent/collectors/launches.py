"""Launches and the device work that they started: what is missing on either side. Pure.

Kineto and CUPTI record API calls and device work, joined by correlation ids.
"""

import re
from collections.abc import Iterable

from mlscope.counts import many, verb

KERNEL_LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
"""Functions of CUDA's runtime and driver that start a kernel."""

_BEGIN_CAPTURE = re.compile(r"cu(da)?StreamBeginCapture")
_END_CAPTURE = re.compile(r"cu(da)?StreamEndCapture")

Call = tuple[int, int, int, str]
"""An API call: its thread, its start, its correlation and the function's name."""


def captured(calls: Iterable[Call]) -> set[int]:
    """Return the correlations of calls made while their thread captured a stream.

    These launches became part of a CUDA graph and ran no kernel. A capture that began before the
    first call or ends after the last one counts as well.
    """
    in_captures: set[int] = set()
    since_begin: dict[int, list[int]] = {}
    capturing: set[int] = set()
    for thread, _, correlation, name in sorted(calls):
        correlations = since_begin.setdefault(thread, [])
        if _BEGIN_CAPTURE.match(name):
            correlations.clear()
            capturing.add(thread)
            continue
        if not _END_CAPTURE.match(name):
            correlations.append(correlation)
            continue
        in_captures.update(correlations)
        correlations.clear()
        capturing.discard(thread)
    return in_captures.union(*(since_begin[thread] for thread in capturing))


def is_capture_call(name: str) -> bool:
    """Say whether an API function begins or ends the capture of a stream."""
    return bool(_BEGIN_CAPTURE.match(name) or _END_CAPTURE.match(name))


def unmatched_notes(unrecorded: int, uncalled: int) -> tuple[str, ...]:
    """Return caveats about launches without a kernel's record, and work without an API call."""
    notes = []
    if unrecorded:
        notes.append(f"{many(unrecorded, 'launched kernel')} left no record")
    if uncalled:
        have = verb(uncalled, "kernel or copy has", "kernels or copies have")
        notes.append(f"{uncalled} {have} no API call")
    return tuple(notes)
