"""When queries are due: int64 nanoseconds after the start of a load, the first at 0, never falling.

Pure; a schedule follows from its arguments alone, on every machine with the same `log`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mlscope.load.errors import LoadError

_PART = 1 << 15


class TooLong(LoadError):
    """A schedule does not end within int64 nanoseconds (292 years)."""


def _uniforms(count: int, seed: int) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) as libstdc++'s generate_canonical<double, 53, mt19937> draws them.

    Two 32-bit draws each, the low word first: (low + high * 2^32) / 2^64.
    """
    # RandomState's stream is frozen by NumPy's policy, and seeds as std::mt19937 does.
    twister = np.random.RandomState(seed % 2**32)
    words = twister.randint(0, 2**32, 2 * count, dtype=np.uint32).astype(np.float64)
    uniforms: NDArray[np.float64] = (words[0::2] + words[1::2] * 2.0**32) / 2.0**64
    return np.minimum(uniforms, np.nextafter(1.0, 0.0))


def poisson_due_ns(rate_hz: float, queries: int, seed: int) -> NDArray[np.int64]:
    """Arrivals of a Poisson process: shape [queries], mean distance 1e9 / `rate_hz`.

    Bit for bit the schedule of MLPerf LoadGen's Server scenario for `server_target_qps` =
    `rate_hz` and `schedule_rng_seed` = `seed` (of which std::mt19937 takes the low 32 bits):
    each distance is -log(1 - u) / rate, cut to whole nanoseconds, then summed.
    The draw is not rescaled, so the rate of one schedule differs from `rate_hz` as chance has it.
    """
    gaps_s = -_logs(1.0 - _uniforms(max(queries - 1, 0), seed)) / rate_hz
    return _summed(gaps_s * 1e9, queries)


def _logs(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return libm's logarithms, part by part: other threads may go on in between.

    np.log differs from libm's log in the last place, which moves an arrival by 1 ns now and then.
    """
    logs = np.empty_like(numbers)
    for first in range(0, len(numbers), _PART):
        part = numbers[first : first + _PART].tolist()
        logs[first : first + _PART] = list(map(math.log, part))
    return logs


def fixed_rate_due_ns(rate_hz: float, queries: int) -> NDArray[np.int64]:
    """Arrivals at equal distances: query k at floor(k * 1e9 / `rate_hz`), shape [queries].

    Each is computed from k, so that no rounding piles up.
    """
    due_ns = np.arange(queries, dtype=np.float64) * (1e9 / rate_hz)
    _fits(due_ns)
    return due_ns.astype(np.int64)


def _summed(gaps_ns: NDArray[np.float64], queries: int) -> NDArray[np.int64]:
    _fits(np.cumsum(gaps_ns))
    due_ns = np.zeros(queries, np.int64)
    np.cumsum(gaps_ns.astype(np.int64), out=due_ns[1:])
    return due_ns


def _fits(due_ns: NDArray[np.float64]) -> None:
    if due_ns.size and not due_ns[-1] < 2.0**63:
        raise TooLong(f"the last query would be due after {due_ns[-1]:.3g} ns")
