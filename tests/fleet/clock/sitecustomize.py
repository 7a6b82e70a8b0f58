"""Makes a process's clock of the time of day wrong; Python imports it first.

TEST_CLOCK_OFFSET_S says by how many seconds, for good. TEST_CLOCK_FILE names a file of eight bytes,
a little-endian integer of nanoseconds, which may change at any moment: somebody sets the clock.

A time namespace has no CLOCK_REALTIME. The monotonic clock stays true, as on a machine whose time
of day is set wrong.
"""

import mmap
import os
import time

_OFFSET_NS = int(os.environ.get("TEST_CLOCK_OFFSET_S", "0")) * 1_000_000_000
_FILE = os.environ.get("TEST_CLOCK_FILE", "")
_time_ns = time.time_ns

if _FILE:
    _clock = mmap.mmap(os.open(_FILE, os.O_RDONLY), 8, prot=mmap.PROT_READ)
    time.time_ns = lambda: _time_ns() + int.from_bytes(_clock[:8], "little", signed=True)
else:
    time.time_ns = lambda: _time_ns() + _OFFSET_NS
time.time = lambda: time.time_ns() / 1e9
