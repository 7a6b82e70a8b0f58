"""Schedules of arrivals: int64 nanoseconds after the start of a load, the first is 0.

Times are non-decreasing: queries that are due together have equal times.
Pure: the arguments alone determine a schedule, on every machine with the same `log` function.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mlscope.load.errors import TooLong

_PART = 1 << 15


def poisson_due_ns(rate_hz: float, queries: int, seed: int) -> NDArray[np.int64]:
    """Return the arrivals of a Poisson process in ns, int64 [`queries`], mean gap 1e9 / `rate_hz`.

    Bit for bit the schedule of MLPerf LoadGen's Server scenario with `server_target_qps` =
    `rate_hz` and `schedule_rng_seed` = `seed` (std::mt19937 uses its low 32 bits): each gap is
    -log(1 - u) / rate, truncated to whole nanoseconds, then summed. The gaps are not rescaled, so
    the actual rate of a schedule varies at random around `rate_hz`.
    Raises TooLong.
    """
    # NumPy guarantees the stream of RandomState, which is seeded like std::mt19937. Each number in
    # [0, 1) takes two 32-bit draws, the low word first: (low + high * 2^32) / 2^64, as libstdc++'s
    # generate_canonical<double, 53, mt19937> does.
    twister = np.random.RandomState(seed % 2**32)
    draws = twister.randint(0, 2**32, 2 * max(queries - 1, 0), dtype=np.uint32).astype(np.float64)
    uniforms = (draws[0::2] + draws[1::2] * 2.0**32) / 2.0**64
    logs = 1.0 - np.minimum(uniforms, np.nextafter(1.0, 0.0))
    # libm's logarithms: np.log differs in the last bit, which would move some arrivals by 1 ns.
    # They are taken in parts, so that other threads can run in between.
    for first in range(0, len(logs), _PART):
        part = logs[first : first + _PART].tolist()
        logs[first : first + _PART] = list(map(math.log, part))
    gaps_ns = -logs / rate_hz * 1e9
    _check_fits(np.cumsum(gaps_ns))
    due_ns = np.zeros(queries, np.int64)
    np.cumsum(gaps_ns.astype(np.int64), out=due_ns[1:])
    return due_ns


def fixed_rate_due_ns(rate_hz: float, queries: int) -> NDArray[np.int64]:
    """Return arrivals at equal distances in ns, int64 [`queries`]: k is floor(k * 1e9 / `rate_hz`).

    Each arrival is computed from k, so that rounding errors do not accumulate. Raises TooLong.
    """
    due_ns = np.arange(queries, dtype=np.float64) * (1e9 / rate_hz)
    _check_fits(due_ns)
    return due_ns.astype(np.int64)


def _check_fits(due_ns: NDArray[np.float64]) -> None:
    if due_ns.size and not due_ns[-1] < 2.0**63:
        raise TooLong(f"the last query would be due after {due_ns[-1]:.3g} ns")
