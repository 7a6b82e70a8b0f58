"""Buckets of latencies whose ends have the same ratio everywhere: eight to a doubling. Pure.

Bucket n is from 2 ** (n / 8) ns to 2 ** ((n + 1) / 8) ns, 9% wide. Live histograms and those of
stored runs have the same buckets, so that a bar means the same in both.
"""

import numpy as np
import numpy.typing as npt

BUCKETS_PER_OCTAVE = 8


def buckets_of(
    latencies_ns: npt.NDArray[np.int64], per_octave: int = BUCKETS_PER_OCTAVE
) -> npt.NDArray[np.int64]:
    """Return the number of the bucket of each of the `latencies_ns`; less than 1 ns counts as 1 ns.

    `per_octave`: how many buckets there are to a doubling.
    """
    octaves = np.log2(np.maximum(latencies_ns, 1))
    return np.asarray(octaves * per_octave, np.int64)


def bounds_ns(bucket: int) -> tuple[float, float]:
    """Return where a `bucket` begins and ends, in ns."""
    return 2.0 ** (bucket / BUCKETS_PER_OCTAVE), 2.0 ** ((bucket + 1) / BUCKETS_PER_OCTAVE)
