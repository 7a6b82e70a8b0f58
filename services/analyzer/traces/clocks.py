"""Times of day of a trace by the cluster's clock: agents on other machines have their own. Pure."""

from collections.abc import Mapping
from typing import Any


def cluster_epoch_ns(row: Mapping[str, Any]) -> int:
    """Return when a run's clock began, by the cluster's clock as far as it was measured; 0 unknown.

    `row` has the start by the agent's clock (`epoch_start_ns`) and, where measured, by how much
    that clock was behind the cluster's (`clock_offset_ns`) with the most by which this is wrong
    (`clock_bound_ns`). An offset within its bound says nothing, so it moves nothing.
    """
    began_ns: int = row["epoch_start_ns"] or 0
    offset_ns, bound_ns = row["clock_offset_ns"], row["clock_bound_ns"]
    if not began_ns or offset_ns is None or bound_ns is None or abs(offset_ns) <= bound_ns:
        return began_ns
    return began_ns + int(offset_ns)
