"""A load: which samples each query carries, and when it is due."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Pacing = Literal["local", "remote"]


@dataclass(frozen=True, eq=False)
class Load:
    """One pass of queries over a dataset, as a scenario lays it out."""

    scenario: str
    #: shape [queries]: nanoseconds after the start, never falling; None in a closed loop, where
    #: the next query is issued when one before it ends
    due_ns: NDArray[np.int64] | None
    #: shape [queries, batch_size]: the samples each query carries, by index into the dataset
    sample_indices: NDArray[np.int32]
    #: queries in flight at most in a closed loop; 0 is without bound, as an open loop needs it
    concurrency: int
    #: who issues it where the request does not say
    pacing: Pacing

    @property
    def open_loop(self) -> bool:
        """Whether queries are due at times of their own, however long the answers take."""
        return self.due_ns is not None

    @property
    def queries(self) -> int:
        """How many queries the load has."""
        return int(self.sample_indices.shape[0])

    @property
    def batch_size(self) -> int:
        """How many samples each query carries."""
        return int(self.sample_indices.shape[1])
