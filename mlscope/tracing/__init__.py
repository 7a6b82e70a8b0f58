"""Spans as they are recorded and shipped: clocks, buffers, batches.

Owns: timestamps in nanoseconds of CLOCK_MONOTONIC, rows of spans, their columns on the wire, and
the API for spans of user code (`span`, `marker`). Knows: the contract. Does not know: what is
measured, and who publishes it.
"""

from mlscope.tracing.application import marker, span

__all__ = ["marker", "span"]
