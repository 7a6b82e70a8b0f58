"""Parents of device work: a kernel belongs to its launch, not to the place where it ran."""

import numpy as np
import numpy.typing as npt

from schemas.batch import SpanKind
from services.analyzer.correlation.columns import ABSENT, Ns, Rows, Spans


def launches_of(spans: Spans, devices: Rows) -> Rows:
    """Return the row of the launch that started each device span, -1 where none is known.

    Both carry one correlation id. Where several launches share it (an id was reused), the last
    that began before the device span did counts, else the first.
    """
    launches = np.flatnonzero(spans.is_kind(SpanKind.LAUNCH) & (spans.correlation != ABSENT))
    if not launches.size or not devices.size:
        return np.full(len(devices), ABSENT, np.int64)
    order = launches[np.lexsort((spans.start[launches], spans.correlation[launches]))]
    ids, first, count = np.unique(spans.correlation[order], return_index=True, return_counts=True)
    sought = spans.correlation[devices]
    place = np.minimum(np.searchsorted(ids, sought), len(ids) - 1)
    is_known = (ids[place] == sought) & (sought != ABSENT)
    launch = np.where(is_known, order[first[place]], ABSENT)
    again = np.flatnonzero(is_known & (count[place] > 1))
    if again.size:
        # Both in the order of (id, start): where a device span would lie among all launches.
        starts = np.sort(spans.start[order])
        began, started = (
            np.searchsorted(starts, spans.start[rows], side="right")
            for rows in (order, devices[again])
        )
        of_id = np.repeat(np.arange(len(ids)), count)
        step = len(starts) + 1
        last = np.searchsorted(of_id * step + began, place[again] * step + started, side="right")
        launch[again] = order[np.maximum(last - 1, first[place[again]])]
    return launch


def is_shared(launches: Rows) -> npt.NDArray[np.bool_]:
    """Return which device spans share their launch with another: those replayed by a graph."""
    has_launch: npt.NDArray[np.bool_] = launches != ABSENT
    if not has_launch.any():
        return has_launch
    times: Ns = np.bincount(launches[has_launch], minlength=int(launches.max()) + 1)
    has_launch &= times[np.where(has_launch, launches, 0)] > 1
    return has_launch
