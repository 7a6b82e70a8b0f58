"""Threads as CUPTI names them: the low 32 bits of their pthread."""

import threading
from collections.abc import Mapping

from services.agent.collectors.threads import LOW_32


def native_threads() -> Mapping[int, int]:
    """Return the system's ids of Python's threads, by the low 32 bits of their pthread."""
    return {
        thread.ident & LOW_32: thread.native_id
        for thread in threading.enumerate()
        if thread.ident is not None and thread.native_id is not None
    }
