"""Spans as they are recorded and shipped: clocks, buffers, batches.

Owns: stamps in nanoseconds of CLOCK_MONOTONIC, rows of spans, their columns on the wire, and what
a user's own code says (`span`, `marker`). Knows: the contract. Does not know: what is measured,
and who publishes.
"""

from mlscope.tracing.application import marker, span

__all__ = ["marker", "span"]
