"""Makes a process's clock of the time of day wrong by TEST_CLOCK_OFFSET_S; Python imports it first.

A time namespace has no CLOCK_REALTIME. The monotonic clock stays true, as on a machine whose time
of day is set wrong.
"""

import os
import time

_OFFSET_S = int(os.environ.get("TEST_CLOCK_OFFSET_S", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _OFFSET_S
time.time_ns = lambda: _time_ns() + _OFFSET_S * 1_000_000_000
