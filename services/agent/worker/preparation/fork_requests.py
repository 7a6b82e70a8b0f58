"""What a worker, its fork server and the processes forked from it say to each other."""

import struct

READY, FAILED = "ready", "failed"
"""The first item of its first message; after `failed` follows why."""

MAP, FORK, FINISH, REAP = "map", "fork", "finish", "reap"
"""What the worker asks: map an arena, fork a process that prepares or one that post-processes, wait
for one that ends.
"""

PREPARE = "prepare"
"""What failures outside of a step are said to be failures of."""
ORDER = struct.Struct("<4q")
"""An order's number, its slot, its first position there, and how many positions follow."""
