"""Failed logins of each address, so that a token cannot be guessed by trying. Pure."""

from collections import OrderedDict, deque
from math import ceil

MAX_FAILURES = 10
WITHIN_S = 60.0
_MAX_ADDRESSES = 4096


class Failures:
    """The times of the latest failed logins by address; the oldest addresses are dropped."""

    def __init__(self) -> None:
        """Start without failures."""
        self._times_s: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str, now_s: float) -> None:
        """Note a failed login from `address` at `now_s` (seconds of a monotonic clock)."""
        self._times_s.setdefault(address, deque(maxlen=MAX_FAILURES)).append(now_s)
        self._times_s.move_to_end(address)
        if len(self._times_s) > _MAX_ADDRESSES:
            self._times_s.popitem(last=False)

    def wait_s(self, address: str, now_s: float) -> int:
        """Return how many seconds `address` has to wait for its next try; 0 none."""
        times_s = self._times_s.get(address, deque[float]())
        if len(times_s) < MAX_FAILURES:
            return 0
        return max(0, ceil(times_s[0] + WITHIN_S - now_s))
