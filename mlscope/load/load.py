"""A load: the samples each query carries, and the time it is due. Pure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Pacing = Literal["local", "remote"]
SamplesMode = Literal["", "ahead", "streamed"]
AHEAD: Literal["ahead"] = "ahead"
STREAMED: Literal["streamed"] = "streamed"
"""Whether samples are prepared before a run's clock starts, or while it runs."""


@dataclass(frozen=True, eq=False)
class Load:
    """The queries of one run over a dataset, made by a scenario."""

    scenario: str
    #: shape [queries]: nanoseconds after the start, non-decreasing (queries may be due together);
    #: None in a closed loop, where the next query is issued when an earlier one ends
    due_ns: NDArray[np.int64] | None
    #: shape [queries, batch_size]: the samples each query carries, by index into the dataset
    sample_indices: NDArray[np.int32]
    #: the maximum number of queries in flight in a closed loop; 0 is no limit, for an open loop
    concurrency: int
    #: who issues the load (the agent or the scheduler) unless the request says so
    pacing: Pacing
    #: when its samples are prepared: ahead, or streamed while the clock runs; '' was not requested
    samples: SamplesMode = ""

    @property
    def open_loop(self) -> bool:
        """Whether queries are due at fixed times, independent of the answers."""
        return self.due_ns is not None

    @property
    def queries(self) -> int:
        """The number of queries."""
        return int(self.sample_indices.shape[0])

    @property
    def batch_size(self) -> int:
        """The number of samples in each query."""
        return int(self.sample_indices.shape[1])
